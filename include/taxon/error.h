#pragma once

/// `taxon::Error`: one failure of the world or of its user, with a kind, a sentence and, where it is known,
/// the rank at fault; `exit_code()`: what a program that ends by it returns.
#include "base/error.h"
#include "base/failure.h"
