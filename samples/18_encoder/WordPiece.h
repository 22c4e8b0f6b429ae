// SPDX-License-Identifier: Apache-2.0
/// \file Text to the numbers of word pieces, as the uncased BERT models have them.
///
/// Words end at white space, at punctuation and at ideographs, which are words of their own. A word is lower case without
/// accents; of it the longest beginning that the vocabulary has is taken again and again, later ones with ## in front. Letters
/// up to U+017F are known with their accents; what lies above, but for ideographs and common punctuation, is taken as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sample {

class WordPiece {
public:
  /// A piece per line; its number is that of the line.
  explicit WordPiece(const std::filesystem::path &vocabulary) {
    std::ifstream file(vocabulary);
    std::string line;
    while (std::getline(file, line)) {
      if (!line.empty() && line.back() == '\r')
        line.pop_back();
      numbers.emplace(line, static_cast<std::int32_t>(numbers.size()));
    }
    for (const char *name : {"[CLS]", "[SEP]", "[UNK]"})
      if (!numbers.contains(name))
        throw std::runtime_error(vocabulary.string() + " has no " + name);
  }

  /// [CLS], the pieces, [SEP]; at most `most` numbers.
  std::vector<std::int32_t> operator()(std::string_view text, std::size_t most) const {
    std::vector<std::int32_t> ids{numbers.at("[CLS]")};
    std::u32string word;
    auto end = [&] {
      addWord(word, ids);
      word.clear();
    };
    for (char32_t c : decoded(text)) {
      if (c == U' ' || c == U'\t' || c == U'\n' || c == U'\r' || c == 0xA0 || c == 0x3000 || (c >= 0x2000 && c <= 0x200A)) {
        end();
      } else if (isPunctuation(c) || isIdeograph(c)) {
        end();
        word = c;
        end();
      } else if (const char32_t letter = plain(c)) {
        word += letter;
      }
    }
    end();
    if (ids.size() > most - 1)
      ids.resize(most - 1);
    ids.push_back(numbers.at("[SEP]"));
    return ids;
  }

private:
  void addWord(const std::u32string &word, std::vector<std::int32_t> &ids) const {
    constexpr std::size_t longest = 100;
    const std::size_t before = ids.size();
    for (std::size_t at = 0; at < word.size();) {
      std::size_t length = word.size() > longest ? 0 : word.size() - at;
      for (; length > 0; --length)
        if (const auto known = numbers.find((at ? "##" : "") + encoded(word.substr(at, length))); known != numbers.end()) {
          ids.push_back(known->second);
          break;
        }
      if (length == 0) {
        ids.resize(before);
        ids.push_back(numbers.at("[UNK]"));
        return;
      }
      at += length;
    }
  }

  /// Lower case, without an accent; 0: nothing remains.
  static char32_t plain(char32_t c) {
    static constexpr char32_t letters[] = U"aaaaaaæceeeeiiiiðnooooo×øuuuuyþßaaaaaaæceeeeiiiiðnooooo÷øuuuuyþyaaaaaacccccccc"
                                          U"ddđđeeeeeeeeeegggggggghhħħiiiiiiiiiıĳĳjjkkĸllllllŀŀłłnnnnnnŉŋŋooooooœœrrrrrr"
                                          U"ssssssssttttŧŧuuuuuuuuuuuuwwyyyzzzzzzſ";
    static_assert(std::size(letters) == 0x180 - 0xC0 + 1);
    if (c >= U'A' && c <= U'Z')
      return c + 32;
    if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0xFFFD || c == 0xFEFF || (c >= 0x300 && c < 0x370) || (c >= 0x200B && c <= 0x200F))
      return 0;
    return c >= 0xC0 && c < 0x180 ? letters[c - 0xC0] : c;
  }
  static bool isPunctuation(char32_t c) {
    return (c > 0x20 && c < U'0') || (c > U'9' && c < U'A') || (c > U'Z' && c < U'a') || (c > U'z' && c < 0x7F) || c == 0xA1 || c == 0xA7 ||
           c == 0xAB || c == 0xB6 || c == 0xB7 || c == 0xBB || c == 0xBF || (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205E) ||
           (c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x3011) || (c >= 0x3014 && c <= 0x301F);
  }
  static bool isIdeograph(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
  }

  /// UTF-8; U+FFFD for bytes that are none.
  static std::u32string decoded(std::string_view text) {
    std::u32string result;
    for (std::size_t i = 0; i < text.size();) {
      const auto first = static_cast<unsigned char>(text[i]);
      const std::size_t more = first < 0x80 ? 0 : first < 0xC2 ? 4 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF5 ? 3 : 4;
      char32_t c = more == 0 ? first : first & (0x3Fu >> more);
      std::size_t got = 0;
      for (; more < 4 && got < more && i + 1 + got < text.size() && (text[i + 1 + got] & 0xC0) == 0x80; ++got)
        c = c << 6 | (text[i + 1 + got] & 0x3Fu);
      result += more < 4 && got == more ? c : U'\xFFFD';
      i += 1 + got;
    }
    return result;
  }
  static std::string encoded(const std::u32string &word) {
    std::string result;
    for (char32_t c : word) {
      const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
      result += static_cast<char>(more == 0 ? c : (0xFF00u >> (more + 1) & 0xFFu) | c >> 6 * more);
      for (int i = more; i-- > 0;)
        result += static_cast<char>(0x80u | (c >> 6 * i & 0x3Fu));
    }
    return result;
  }

  std::unordered_map<std::string, std::int32_t> numbers;
};

} // namespace sample
