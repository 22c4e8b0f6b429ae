// SPDX-License-Identifier: Apache-2.0
#include "dsl/BuildId.h"

#include <fmt/format.h>

#include <cstring>
#include <elf.h>
#include <link.h>

namespace sectile {
namespace {

/// The GNU build id among the notes of one segment; empty if it is not there.
std::string idInNotes(const char *notes, std::size_t size) {
  auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    std::size_t name = padded(note.n_namesz), whole = sizeof note + name + padded(note.n_descsz);
    if (whole > size)
      break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes + sizeof note, "GNU", 4) == 0) {
      std::string text;
      for (std::size_t i = 0; i < note.n_descsz; ++i)
        text += fmt::format("{:02x}", static_cast<unsigned char>(notes[sizeof note + name + i]));
      return text;
    }
    notes += whole;
    size -= whole;
  }
  return {};
}

struct Search {
  std::uintptr_t inside;
  std::string id;
};

int visit(dl_phdr_info *object, std::size_t, void *data) {
  auto &search = *static_cast<Search *>(data);
  bool isOurs = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object->dlpi_phdr[i];
    std::uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    isOurs |= segment.p_type == PT_LOAD && search.inside >= start && search.inside < start + segment.p_memsz;
  }
  for (int i = 0; isOurs && search.id.empty() && i < object->dlpi_phnum; ++i)
    if (const ElfW(Phdr) &segment = object->dlpi_phdr[i]; segment.p_type == PT_NOTE)
      search.id = idInNotes(reinterpret_cast<const char *>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  return isOurs;
}

} // namespace

const std::string &buildId() {
  static const std::string id = [] {
    Search search{reinterpret_cast<std::uintptr_t>(&buildId), {}};
    dl_iterate_phdr(visit, &search);
    return search.id;
  }();
  return id;
}

} // namespace sectile
