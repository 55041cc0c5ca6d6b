#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/config.h"
#include "apps/model_identity.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "apps/state_folder.h"
#include "apps/talk_commands.h"
#include "apps/version.h"
#include "serve/server.h"
#include "talk/host.h"
#include "talk/store.h"

namespace mooring {
namespace {

Result<std::filesystem::path> StateOf(const CommandContext& context) {
  const std::string& chosen = context.settings.conversations.state_dir;
  if (chosen != "auto") return std::filesystem::path(chosen);
  if (context.config_inputs != nullptr) {
    if (auto folder = StateFolder(context.config_inputs->environment)) return *folder;
  }
  return Error{.kind = ErrorKind::kConfig,
               .what = "no place for what is said",
               .where = "conversations.state_dir",
               .remedy = "set HOME, or give --state DIR"};
}

// What tokens of the store must match: the same ids for the same text, and the same marks.
std::string TokensIdentity(const ConversationIdentity& identity) {
  constexpr size_t kHashDigits = 32;
  return fmt::format("{}-{:016x}-{:016x}", identity.model_sha256.substr(0, kHashDigits),
                     identity.tokenizer_hash, identity.template_hash);
}

// What keys and values depend on beside the tokens. The shape of the window proves itself.
std::string NumericsOf(const Runtime& runtime) {
  return fmt::format("{}-{}-{}-{}", kVersion, runtime.backend->kernels().name,
                     NameOf(runtime.model->precision()), runtime.engine->options().policy);
}

Result<ServerOptions> OptionsOf(const CommandContext& context, const Runtime& runtime,
                                const std::string& identity) {
  const Settings& settings = context.settings;
  ServerOptions options;
  MOORING_ASSIGN_OR_RETURN(options.listen, ParseListenAddress(settings.server.listen));
  options.limits.connections = static_cast<size_t>(settings.server.max_connections);
  if (!settings.server.api_keys_file.empty()) {
    MOORING_ASSIGN_OR_RETURN(options.api.keys, ApiKeys::Read(settings.server.api_keys_file));
  }
  options.limits.body_bytes = static_cast<size_t>(settings.server.body_bytes);
  const int64_t share =
      options.api.keys.count() > 1 ? std::max<int64_t>(1, settings.server.queue / 2) : 0;
  options.api.limits = {.turns = settings.server.key_queue.value_or(share),
                        .requests_per_minute = settings.server.requests_per_minute.value_or(0)};
  const auto variable = [&](std::string_view name) -> std::string_view {
    if (context.config_inputs == nullptr) return {};
    const auto found = context.config_inputs->environment.find(name);
    return found == context.config_inputs->environment.end() ? std::string_view() : found->second;
  };
  options.manager = ServiceManager(variable("NOTIFY_SOCKET"), variable("WATCHDOG_USEC"),
                                   variable("WATCHDOG_PID"));
  options.api.defaults.model = runtime.model_name;
  MOORING_ASSIGN_OR_RETURN(options.api.defaults.turn, TurnFromSettings(settings, runtime));
  options.api.defaults.match = settings.conversations.match == "messages";
  options.api.work_queue = static_cast<size_t>(settings.server.queue);
  options.api.fingerprint =
      fmt::format("m{}-{}-{}", kVersion, identity.substr(0, 8), settings.memory.policy);
  options.api.started = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  return options;
}

// Every connection is an open file, and a shell's limit is often 1,024: as many as the system
// allows, so that the store still finds one for its files when all connections are open.
void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

Status RunServe(CommandContext& context) {
  RaiseFileLimit();
  if (!context.arguments.empty()) context.settings.model.path = context.arguments.front();
  const Settings& settings = context.settings;
  const auto places = static_cast<int>(settings.max_batch_size);
  MOORING_ASSIGN_OR_RETURN(const std::filesystem::path state, StateOf(context));
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open({.folder = state}));
  MOORING_ASSIGN_OR_RETURN(const Runtime runtime, LoadRuntime(context, {.conversations = places,
                                                                        .logit_rows = places,
                                                                        .chat_template = true,
                                                                        .encoder = true}));
  for (const std::string& warning : runtime.warnings) {
    Print(context.err, "warning: {}\n", SafeText(warning));
  }
  const std::string identity = TokensIdentity(IdentityOf(runtime));
  MOORING_ASSIGN_OR_RETURN(ServerOptions options, OptionsOf(context, runtime, identity));
  Host host(runtime.engine.get(), runtime.chat_template.get(), store.get(),
            {.queue = static_cast<size_t>(settings.server.queue),
             .snapshots = state / "snapshots",
             .numerics = NumericsOf(runtime),
             .terms = runtime.terms.get(),
             .meaning = runtime.meaning(),
             .model = runtime.model_name,
             .identity = identity});
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                           Server::Create(std::move(options), &host));
  if (!context.global.quiet) Print(context.err, "{}", runtime.Description());
  if (context.global.json) {
    PrintJson(context.out, {{"listening", server->address()}, {"state", state.string()}});
  } else {
    Print(context.out, "listening on {}\n", server->address());
  }
  (void)std::fflush(context.out);
  server->Run();
  return {};
}

}  // namespace

Command ServeCommand() {
  return {.name = "serve",
          .arguments = "[MODEL]",
          .summary = "serve the OpenAI API and the page over HTTP",
          .examples =
              "mooring serve\n"
              "mooring serve smollm2 --listen 127.0.0.1:8080 --window 1024\n"
              "mooring serve --listen 0.0.0.0:7437 --api-key-file keys.txt\n"
              "mooring serve --listen unix:mooring.sock --state talks",
          .max_arguments = 1,
          .loads_model = true,
          .samples = true,
          .serves = true,
          .run = &RunServe};
}

}  // namespace mooring
