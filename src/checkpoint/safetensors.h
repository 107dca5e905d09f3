#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/view.h"
#include "checkpoint/logical_tensor.h"
#include "data/storage.h"

namespace taxon::checkpoint {

/// Free text beside the tensors: the format's __metadata__.
using Metadata = std::map<std::string, std::string>;

/// A file of the safetensors format (https://huggingface.co/docs/safetensors): a u64 header length, a JSON
/// header padded so that the data start at a multiple of 8, the tensors without holes. Wider types lie first,
/// so that every tensor is aligned for its type. Equal arguments give equal bytes. REQUIRES: names are
/// distinct and not "__metadata__", and each tensor has as many bytes as its type and shape say.
std::vector<std::byte> encode_safetensors(const std::vector<LogicalTensor>& tensors,
                                          const Metadata& metadata = {});

/// The inverse: the tensors in the order of the header, and the metadata if they are asked for. Strict:
/// throws Error{Checkpoint} that begins with `path` for a file that is cut short or too long, has a header
/// that is too large or no JSON, duplicate names, types that Taxon has not, or tensors that overlap, leave
/// holes, lie outside, or whose length is not that of their shape.
std::vector<LogicalTensor> decode_safetensors(ConstView file, const std::string& path,
                                              Metadata* metadata = nullptr);

/// All or nothing. Throws Error{Output}.
void write_safetensors(data::Storage& storage, const std::string& path,
                       const std::vector<LogicalTensor>& tensors, const Metadata& metadata = {});
/// Throws Error{Checkpoint}, also when the file is missing.
std::vector<LogicalTensor> read_safetensors(const data::Storage& storage, const std::string& path);

}  // namespace taxon::checkpoint
