// SPDX-License-Identifier: Apache-2.0
#include "dsl/ToolsCompletion.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace sectile::tools {
namespace {

/// What may follow an option or stand at a position.
struct Value {
  bool isTaken = false;             ///< false: a flag
  std::vector<std::string> choices; ///< empty: anything
  bool isFile = false, isDirectory = false;
};

struct OptionWords {
  std::vector<std::string> names; ///< "--out", "-o"
  std::string about;
  Value value;
};

/// One (sub)command by its place, "/cache/list"; the program itself is "".
struct Command {
  std::string place, about;
  std::vector<std::string> subcommands, subcommandTexts;
  std::vector<OptionWords> options;
  Value positional;

  std::vector<std::string> optionNames() const {
    std::vector<std::string> all;
    for (const OptionWords &o : options)
      all.insert(all.end(), o.names.begin(), o.names.end());
    return all;
  }
};

/// CLI11 describes a value as TYPE or TYPE:{choice,choice}.
Value valueOf(const CLI::Option &option) {
  Value value;
  value.isTaken = option.get_items_expected_max() > 0;
  std::string type = option.get_type_name();
  value.isFile = type.starts_with("FILE");
  value.isDirectory = type.starts_with("DIR");
  std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos)
    return value;
  std::string list = type.substr(open + 1, close - open - 1);
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t comma = std::min(list.find(',', at), list.size());
    value.choices.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return value;
}

void collect(const CLI::App &app, const std::string &place, std::vector<Command> &out) {
  Command command;
  command.place = place;
  command.about = app.get_description();
  for (const CLI::Option *option : app.get_options()) {
    if (option->get_positional()) {
      command.positional = valueOf(*option);
      continue;
    }
    OptionWords words;
    for (const std::string &name : option->get_lnames())
      words.names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      words.names.push_back("-" + name);
    words.about = option->get_description();
    words.value = valueOf(*option);
    command.options.push_back(std::move(words));
  }
  auto children = app.get_subcommands([](const CLI::App *) { return true; });
  for (const CLI::App *child : children) {
    command.subcommands.push_back(child->get_name());
    command.subcommandTexts.push_back(child->get_description());
  }
  out.push_back(std::move(command));
  for (const CLI::App *child : children)
    collect(*child, place + "/" + child->get_name(), out);
}

std::string joined(const std::vector<std::string> &words, const char *separator = " ") {
  return fmt::format("{}", fmt::join(words, separator));
}

/// Text between fish's single quotes.
std::string quoted(const std::string &text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out + "'";
}

std::vector<std::string> placesBelowTop(const std::vector<Command> &commands) {
  std::vector<std::string> places;
  for (const Command &c : commands)
    if (!c.place.empty())
      places.push_back(c.place);
  return places;
}

/// Branches of the two `case` statements of bash and zsh. `words`, `files` and `directories` are the
/// statements that offer words (a {} stands for them), files, directories.
struct Offers {
  const char *words, *files, *directories;
};
std::string offer(const Value &value, const Offers &offers) {
  if (!value.choices.empty())
    return fmt::format(fmt::runtime(offers.words), joined(value.choices));
  return value.isFile ? offers.files : value.isDirectory ? offers.directories : ":";
}
std::string optionCases(const std::vector<Command> &commands, const Offers &offers) {
  std::string text;
  for (const Command &c : commands)
    for (const OptionWords &o : c.options) {
      if (!o.value.isTaken)
        continue;
      std::vector<std::string> patterns;
      for (const std::string &name : o.names)
        patterns.push_back(fmt::format("'{}:{}'", c.place, name));
      text += fmt::format("    {}) {}; return ;;\n", joined(patterns, "|"), offer(o.value, offers));
    }
  return text;
}
std::string placeCases(const std::vector<Command> &commands, const Offers &offers) {
  std::string text;
  for (const Command &c : commands) {
    std::string rest = c.subcommands.empty() ? offer(c.positional, offers)
                                             : fmt::format(fmt::runtime(offers.words), joined(c.subcommands));
    text += fmt::format("    '{}') if [[ \"$cur\" == -* ]]; then {}; else {}; fi ;;\n", c.place,
                        fmt::format(fmt::runtime(offers.words), joined(c.optionNames())), rest);
  }
  return text;
}

std::string bashScript(const std::string &name, const std::vector<Command> &commands) {
  const Offers offers{"COMPREPLY=($(compgen -W '{}' -- \"$cur\"))",
                      "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))",
                      "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\"))"};
  return fmt::format(R"(# bash completion of {name}. Use: source <({name} completion bash)
_{name}() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" place="" i IFS=$' \t\n'
  COMPREPLY=()
  if [[ "$cur" == "=" ]]; then
    cur=""
  elif [[ "$prev" == "=" ]]; then
    prev="${{COMP_WORDS[COMP_CWORD-2]}}"
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$place/${{COMP_WORDS[i]}}" in
    {places}) place="$place/${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$place:$prev" in
{options}  esac
  case "$place" in
{commands}  esac
}}
complete -F _{name} {name}
)",
                     fmt::arg("name", name), fmt::arg("places", joined(placesBelowTop(commands), "|")),
                     fmt::arg("options", optionCases(commands, offers)),
                     fmt::arg("commands", placeCases(commands, offers)));
}

std::string zshScript(const std::string &name, const std::vector<Command> &commands) {
  const Offers offers{"compadd -- {}", "_files", "_files -/"};
  return fmt::format(R"(#compdef {name}
# zsh completion of {name}. Use: source <({name} completion zsh)
_{name}() {{
  local cur="${{words[CURRENT]}}" prev="${{words[CURRENT-1]}}" place="" i
  if [[ "$cur" == --*=* ]]; then
    prev="${{cur%%=*}}"
    compset -P '*='
  fi
  for ((i = 2; i < CURRENT; ++i)); do
    case "$place/${{words[i]}}" in
    {places}) place="$place/${{words[i]}}" ;;
    esac
  done
  case "$place:$prev" in
{options}  esac
  case "$place" in
{commands}  esac
}}
if [[ "${{funcstack[1]}}" == "_{name}" ]]; then
  _{name} "$@"
elif (( $+functions[compdef] )); then
  compdef _{name} {name}
fi
)",
                     fmt::arg("name", name), fmt::arg("places", joined(placesBelowTop(commands), "|")),
                     fmt::arg("options", optionCases(commands, offers)),
                     fmt::arg("commands", placeCases(commands, offers)));
}

std::string fishScript(const std::string &name, const std::vector<Command> &commands) {
  std::string text =
      fmt::format(R"(# fish completion of {name}. Use: {name} completion fish | source
function __{name}_at
  set -l place
  for word in (commandline -opc)[2..-1]
    if contains -- "$place/$word" {places}
      set place "$place/$word"
    end
  end
  test "$place" = "$argv[1]"
end
complete -c {name} -f
)",
                  fmt::arg("name", name), fmt::arg("places", joined(placesBelowTop(commands))));
  for (const Command &c : commands) {
    std::string head = fmt::format("complete -c {} -n '__{}_at \"{}\"'", name, name, c.place);
    for (std::size_t i = 0; i < c.subcommands.size(); ++i)
      text += fmt::format("{} -a {} -d {}\n", head, c.subcommands[i], quoted(c.subcommandTexts[i]));
    if (!c.positional.choices.empty())
      text += fmt::format("{} -a '{}'\n", head, joined(c.positional.choices));
    else if (c.positional.isFile)
      text += head + " -F\n";
    for (const OptionWords &o : c.options) {
      text += head;
      for (const std::string &option : o.names)
        text += option.starts_with("--") ? " -l " + option.substr(2) : " -s " + option.substr(1);
      if (o.value.isTaken)
        text += !o.value.choices.empty()                ? fmt::format(" -x -a '{}'", joined(o.value.choices))
                : o.value.isFile || o.value.isDirectory ? " -r -F"
                                                        : " -x";
      text += " -d " + quoted(o.about) + "\n";
    }
  }
  return text;
}

} // namespace

std::string completionScript(const CLI::App &app, const std::string &shell) {
  std::vector<Command> commands;
  collect(app, "", commands);
  return shell == "bash"  ? bashScript(app.get_name(), commands)
         : shell == "zsh" ? zshScript(app.get_name(), commands)
                          : fishScript(app.get_name(), commands);
}

} // namespace sectile::tools
