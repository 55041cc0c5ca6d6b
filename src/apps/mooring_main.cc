#include <unistd.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/dispatch.h"
#include "apps/signals.h"

int main(int argc, char** argv) {
  mooring::Program program;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    program.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  program.interrupted = mooring::InstallSignalHandlers();
  const std::span<char*> words(argv, static_cast<size_t>(argc));
  std::vector<std::string> arguments;
  for (const char* word : words.subspan(argc > 0 ? 1 : 0)) arguments.emplace_back(word);
  return mooring::RunMooring(arguments, program);
}
