// SPDX-License-Identifier: Apache-2.0
/// \file Reading a model: the tensors of a safetensors file, and its numbers in config.json.
#pragma once

#include <sectile/DType.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sample {

inline nlohmann::json readJson(const std::filesystem::path &path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(path.string() + " cannot be read");
  return nlohmann::json::parse(file);
}

/// A safetensors file: the length of a header in 8 bytes, the header in JSON, and the tensors, whose places the header
/// gives as bytes behind itself. What the header says is checked against the file.
class Checkpoint {
public:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin, end; ///< in the file
    std::int64_t count() const {
      std::int64_t n = 1;
      for (std::int64_t length : shape)
        n *= length;
      return n;
    }
  };

  explicit Checkpoint(std::filesystem::path name) : path(std::move(name)), file(path, std::ios::binary) {
    if (!file)
      wrong("it cannot be read");
    const std::uint64_t size = std::filesystem::file_size(path);
    std::uint64_t length = 0;
    if (size < 8 || !file.read(reinterpret_cast<char *>(&length), 8) || length > size - 8)
      wrong("its header is longer than the file");
    std::string header(length, '\0');
    file.read(header.data(), static_cast<std::streamsize>(length));
    const std::uint64_t first = 8 + length;
    const auto described = nlohmann::json::parse(header);
    for (const auto &[name, of] : described.items()) {
      if (name == "__metadata__")
        continue;
      Entry e{of.at("dtype"), of.at("shape"), of.at("data_offsets").at(0), of.at("data_offsets").at(1)};
      const std::map<std::string, int> bytes{{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}};
      const auto known = bytes.find(e.dtype);
      if (known == bytes.end())
        wrong(fmt::format("'{}' has elements of {}", name, e.dtype));
      if (e.begin > e.end || e.end > size - first || e.end - e.begin != static_cast<std::uint64_t>(e.count() * known->second))
        wrong(fmt::format("'{}' lies from {} to {} of {} bytes", name, e.begin, e.end, size - first));
      e.begin += first;
      e.end += first;
      entries.emplace(name, std::move(e));
    }
  }

  const Entry &entry(const std::string &name) const {
    const auto at = entries.find(name);
    if (at == entries.end())
      wrong("it has no '" + name + "'");
    return at->second;
  }
  /// The elements of a tensor of this shape, as T.
  template <class T> std::vector<T> read(const std::string &name, const std::vector<std::int64_t> &shape) const {
    const Entry &e = entry(name);
    if (e.shape != shape)
      wrong(fmt::format("'{}' has shape [{}], not [{}]", name, fmt::join(e.shape, ", "), fmt::join(shape, ", ")));
    if (e.dtype == "F32")
      return elements<T, float>(e);
    if (e.dtype == "F16")
      return elements<T, sectile::f16>(e);
    if (e.dtype == "BF16")
      return elements<T, sectile::bf16>(e);
    wrong(fmt::format("'{}' has elements of {}", name, e.dtype));
  }

private:
  template <class T, class Stored> std::vector<T> elements(const Entry &e) const {
    std::vector<Stored> stored(static_cast<std::size_t>(e.count()));
    file.seekg(static_cast<std::streamoff>(e.begin));
    if (!file.read(reinterpret_cast<char *>(stored.data()), static_cast<std::streamsize>(e.end - e.begin)))
      wrong("it cannot be read");
    std::vector<T> result;
    result.reserve(stored.size());
    for (const Stored &x : stored)
      result.push_back(T(static_cast<float>(x)));
    return result;
  }
  [[noreturn]] void wrong(const std::string &what) const { throw std::runtime_error(path.string() + ": " + what); }

  std::filesystem::path path;
  mutable std::ifstream file;
  std::map<std::string, Entry> entries;
};

/// Writes tensors of f32 as such a file.
inline void writeCheckpoint(const std::filesystem::path &path,
                            const std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> &tensors) {
  nlohmann::json header;
  std::uint64_t at = 0;
  for (const auto &[name, tensor] : tensors) {
    const std::uint64_t end = at + tensor.second.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", tensor.first}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(&length), 8) << text;
  for (const auto &[name, tensor] : tensors)
    file.write(reinterpret_cast<const char *>(tensor.second.data()), static_cast<std::streamsize>(tensor.second.size() * sizeof(float)));
  if (!file.flush())
    throw std::runtime_error(path.string() + " cannot be written");
}

} // namespace sample
