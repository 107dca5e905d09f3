#pragma once

/// A codec of one's own: what travels in place of gradients, its wire, and the parts that codecs of entries
/// are made of.
#include "codec/codec.h"
#include "codec/entry_codec.h"
#include "codec/scan.h"
#include "codec/select.h"
#include "codec/wire.h"
#include "exchange/compression/aggregation.h"
