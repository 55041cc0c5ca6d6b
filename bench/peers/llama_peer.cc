// Runs one of our benchmark cases on llama.cpp through its C API and prints one JSON object per
// run, with the fields that our own bench prints. Built by build_llama_cpp.sh; never part of
// Mooring. Settings are the peer's defaults (mapped file, repacked weights, batches of 2,048 in
// micro-batches of 512) with a persistent thread pool attached, as its own llama-bench does. Token
// ids are random with a fixed seed; sampling is not timed.
//
//   prefill        --tokens N (512) into an empty cache
//   append         --tokens N (32) onto --depth D (4096)
//   decode         --tokens N (64), one by one, from --depth D
//   conversations  --conversations C (16) at --depth D (256), --tokens N (32) rounds of one token
//   endless        --window W (2048), full at the start; each time it is full again keep 4 tokens,
//                  drop the older half of the rest and move the others (what its server does);
//                  --tokens N steps (default: from one such move to the next). A step that moves
//                  pays for it
//   memory         --tokens N (4096) read, then 16 decoded; peak Pss with file pages. Run it alone
//
// `cpu_share` is the CPU time used over threads x time. The peer's threads spin while they wait, so
// a value below about 0.97 means that other programs disturbed the run: throw it away.
//
// Our own code is one thread, plus the one that watches Pss in `memory`.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ggml-cpu.h"
#include "llama.h"

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif

namespace {

constexpr int kBatchTokens = 2048;
constexpr int kKeptTokens = 4;

struct Options {
  std::string model;
  std::string which = "prefill";
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  int tokens = 0;  // 0: the case's default
  int depth = -1;  // -1: the case's default
  int window = 2048;
  int conversations = 16;
  int repeat = 1;
  bool flash_attn = true;
  ggml_type kv = GGML_TYPE_F16;
};

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "llama_peer: %s\n", message.c_str());
  std::exit(2);
}

int ParseInt(std::string_view name, const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 0 || value > (1 << 30)) {
    Fail(std::string(name) + ": not a count: " + text);
  }
  return static_cast<int>(value);
}

Options ParseOptions(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) Fail(std::string(name) + ": a value is missing");
    const char* value = argv[i + 1];
    if (name == "--model") {
      o.model = value;
    } else if (name == "--case") {
      o.which = value;
    } else if (name == "--threads") {
      o.threads = ParseInt(name, value);
    } else if (name == "--tokens") {
      o.tokens = ParseInt(name, value);
    } else if (name == "--depth") {
      o.depth = ParseInt(name, value);
    } else if (name == "--window") {
      o.window = ParseInt(name, value);
    } else if (name == "--conversations") {
      o.conversations = ParseInt(name, value);
    } else if (name == "--repeat") {
      o.repeat = ParseInt(name, value);
    } else if (name == "--flash-attn") {
      if (std::strcmp(value, "on") != 0 && std::strcmp(value, "off") != 0)
        Fail("--flash-attn: on or off");
      o.flash_attn = std::strcmp(value, "on") == 0;
    } else if (name == "--kv") {
      if (std::strcmp(value, "f16") != 0 && std::strcmp(value, "q8_0") != 0)
        Fail("--kv: f16 or q8_0");
      o.kv = std::strcmp(value, "q8_0") == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    } else {
      Fail("unknown option " + std::string(name));
    }
  }
  if (o.model.empty()) Fail("--model is missing");
  if (o.threads < 1) Fail("--threads: at least 1");
  return o;
}

double NowMs() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

// CPU time of all threads.
double CpuMs() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// The value in bytes of one line ("Pss:   123 kB") of a /proc/self file; 0 if it is not there.
int64_t ProcBytes(const char* path, const char* label) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return 0;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, label, std::strlen(label)) == 0) {
      kib = std::strtoll(line + std::strlen(label), nullptr, 10);
      break;
    }
  }
  std::fclose(file);
  return kib * 1024;
}

int64_t PssBytes() { return ProcBytes("/proc/self/smaps_rollup", "Pss:"); }

// Largest Pss seen, asked for every 10 ms.
class PssWatch {
 public:
  PssWatch()
      : thread_([this](std::stop_token stop) {
          while (!stop.stop_requested()) {
            peak_ = std::max(peak_, PssBytes());
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}
  int64_t Stop() {
    thread_.request_stop();
    thread_.join();
    return std::max(peak_, PssBytes());
  }

 private:
  int64_t peak_ = 0;  // the thread's until it is joined
  std::jthread thread_;
};

// A model, one context and its thread pool; `Read` and `Step` return when the logits are there.
class Peer {
 public:
  Peer(const Options& o, int context_tokens, int conversations) {
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    const double start = NowMs();
    llama_backend_init();
    model_.reset(llama_model_load_from_file(o.model.c_str(), llama_model_default_params()));
    if (!model_) Fail("cannot load " + o.model);
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(context_tokens * conversations);
    params.n_batch = kBatchTokens;
    params.n_seq_max = static_cast<uint32_t>(conversations);
    params.n_threads = params.n_threads_batch = o.threads;
    params.flash_attn_type =
        o.flash_attn ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = o.kv;
    context_.reset(llama_init_from_model(model_.get(), params));
    if (!context_) Fail("cannot make a context (a q8_0 cache needs --flash-attn on)");
    ggml_threadpool_params pool = ggml_threadpool_params_default(o.threads);
    pool_.reset(ggml_threadpool_new(&pool));
    llama_attach_threadpool(context_.get(), pool_.get(), nullptr);
    load_ms_ = NowMs() - start;
    vocab_size_ = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
    batch_ = llama_batch_init(kBatchTokens, 0, 1);
  }
  ~Peer() {
    llama_batch_free(batch_);
    llama_detach_threadpool(context_.get());
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  double load_ms() const { return load_ms_; }
  int context_tokens() const { return static_cast<int>(llama_n_ctx_seq(context_.get())); }

  // Reads `count` random tokens into conversation `id` from position `from`; logits of the last.
  void Read(int id, int from, int count) {
    for (int done = 0; done < count;) {
      const int rows = std::min(count - done, kBatchTokens);
      batch_.n_tokens = 0;
      for (int row = 0; row < rows; ++row) {
        AddRow(id, from + done + row, done + row + 1 == count);
      }
      Run();
      done += rows;
    }
  }

  // One token for each of conversations 0 .. count - 1, all at `position`.
  void Step(int count, int position) {
    batch_.n_tokens = 0;
    for (int id = 0; id < count; ++id) AddRow(id, position, true);
    Run();
  }

  // Forgets conversation `id` from position `from` on.
  void Truncate(int id, int from) {
    llama_memory_seq_rm(llama_get_memory(context_.get()), id, from, -1);
  }

  // Drops the older half of what follows the kept tokens; returns the new number of tokens.
  int MoveWindow(int count) {
    const int dropped = (count - kKeptTokens) / 2;
    llama_memory_t memory = llama_get_memory(context_.get());
    llama_memory_seq_rm(memory, 0, kKeptTokens, kKeptTokens + dropped);
    llama_memory_seq_add(memory, 0, kKeptTokens + dropped, count, -dropped);
    return count - dropped;
  }

 private:
  template <auto kFree>
  struct Deleter {
    template <typename T>
    void operator()(T* object) const {
      kFree(object);
    }
  };

  void AddRow(int id, int position, bool wants_logits) {
    const int row = batch_.n_tokens++;
    batch_.token[row] = std::uniform_int_distribution<int>(0, vocab_size_ - 1)(random_);
    batch_.pos[row] = position;
    batch_.n_seq_id[row] = 1;
    batch_.seq_id[row][0] = id;
    batch_.logits[row] = wants_logits ? 1 : 0;
  }

  void Run() {
    if (llama_decode(context_.get(), batch_) != 0) Fail("llama_decode failed");
    llama_synchronize(context_.get());
    const float* logits = batch_.logits[batch_.n_tokens - 1] != 0
                              ? llama_get_logits_ith(context_.get(), -1)
                              : nullptr;
    if (logits != nullptr && !std::isfinite(logits[0])) Fail("logits are not finite");
  }

  // Order matters: the context goes before the pool and the model.
  std::unique_ptr<llama_model, Deleter<llama_model_free>> model_;
  std::unique_ptr<ggml_threadpool, Deleter<ggml_threadpool_free>> pool_;
  std::unique_ptr<llama_context, Deleter<llama_free>> context_;
  llama_batch batch_ = {};
  std::mt19937 random_{20240229};
  int vocab_size_ = 0;
  double load_ms_ = 0;
};

struct Run {
  int tokens = 0;  // processed in `step_ms`
  std::vector<double> step_ms;
  double cpu_ms = 0;
  int moves = 0;  // of the window
  int64_t pss_bytes = 0;
  int64_t peak_pss_bytes = 0;
};

// Nearest-rank quantile.
double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const size_t rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

void Print(const Options& o, const Peer& peer, int index, const Run& run) {
  double total_ms = 0;
  for (double ms : run.step_ms) total_ms += ms;
  const std::string model = o.model.substr(o.model.find_last_of('/') + 1);
  std::printf(
      "{\"engine\": \"llama.cpp\", \"version\": \"%s\", \"model\": \"%s\", \"case\": \"%s\", "
      "\"threads\": %d, \"flash_attn\": \"%s\", \"kv\": \"%s\", \"tokens\": %d, \"depth\": %d, "
      "\"window\": %d, \"conversations\": %d, \"run\": %d, \"load_ms\": %.1f, \"steps\": %zu, "
      "\"total_ms\": %.3f, \"cpu_share\": %.3f, \"tokens_per_second\": %.2f, \"mean_ms\": %.4f, "
      "\"median_ms\": %.4f, \"p999_ms\": %.4f, \"worst_ms\": %.4f, \"window_moves\": %d, "
      "\"pss_bytes\": %lld, \"peak_pss_bytes\": %lld}\n",
      PEER_VERSION, model.c_str(), o.which.c_str(), o.threads, o.flash_attn ? "on" : "off",
      o.kv == GGML_TYPE_F16 ? "f16" : "q8_0", run.tokens, o.depth,
      o.which == "endless" ? o.window : 0, o.which == "conversations" ? o.conversations : 1, index,
      peer.load_ms(), run.step_ms.size(), total_ms, run.cpu_ms / (total_ms * o.threads),
      run.tokens * 1e3 / total_ms, total_ms / static_cast<double>(run.step_ms.size()),
      Quantile(run.step_ms, 0.5), Quantile(run.step_ms, 0.999), Quantile(run.step_ms, 1.0),
      run.moves, static_cast<long long>(run.pss_bytes), static_cast<long long>(run.peak_pss_bytes));
  std::fflush(stdout);
}

template <typename F>
void Timed(Run& run, int tokens, const F& body) {
  const double start = NowMs();
  const double cpu_start = CpuMs();
  body();
  run.step_ms.push_back(NowMs() - start);
  run.cpu_ms += CpuMs() - cpu_start;
  run.tokens += tokens;
}

// prefill is append at depth 0.
void RunAppend(const Options& o) {
  Peer peer(o, o.depth + o.tokens, 1);
  peer.Read(0, 0, o.depth);
  peer.Read(0, o.depth, o.tokens);  // warm up
  for (int i = 0; i < o.repeat; ++i) {
    peer.Truncate(0, o.depth);
    Run run;
    Timed(run, o.tokens, [&] { peer.Read(0, o.depth, o.tokens); });
    Print(o, peer, i, run);
  }
}

void RunConversations(const Options& o) {
  Peer peer(o, o.depth + o.tokens, o.conversations);
  for (int id = 0; id < o.conversations; ++id) peer.Read(id, 0, o.depth);
  peer.Step(o.conversations, o.depth);  // warm up
  for (int i = 0; i < o.repeat; ++i) {
    for (int id = 0; id < o.conversations; ++id) peer.Truncate(id, o.depth);
    Run run;
    for (int step = 0; step < o.tokens; ++step) {
      Timed(run, o.conversations, [&] { peer.Step(o.conversations, o.depth + step); });
    }
    Print(o, peer, i, run);
  }
}

void RunEndless(const Options& o) {
  Peer peer(o, o.window, 1);
  if (peer.context_tokens() != o.window) Fail("--window: a multiple of 256");
  int count = o.window;
  peer.Read(0, 0, count);
  const int steps = o.tokens > 0 ? o.tokens : (o.window - kKeptTokens) / 2;
  for (int i = 0; i < o.repeat; ++i) {
    Run run;
    for (int step = 0; step < steps; ++step) {
      Timed(run, 1, [&] {
        if (count == o.window) {
          count = peer.MoveWindow(count);
          ++run.moves;
        }
        peer.Step(1, count++);
      });
    }
    Print(o, peer, i, run);
  }
}

void RunMemory(const Options& o) {
  constexpr int kDecoded = 16;
  PssWatch watch;
  Peer peer(o, o.tokens + kDecoded, 1);
  Run run;
  Timed(run, o.tokens, [&] { peer.Read(0, 0, o.tokens); });
  for (int step = 0; step < kDecoded; ++step) peer.Step(1, o.tokens + step);
  run.pss_bytes = PssBytes();
  run.peak_pss_bytes = watch.Stop();
  Print(o, peer, 0, run);
}

}  // namespace

int main(int argc, char** argv) {
  Options o = ParseOptions(argc, argv);
  struct Case {
    std::string_view name;
    int tokens;  // default
    int depth;   // default
    void (*run)(const Options&);
  };
  // A decode is conversations with one of them.
  const Case cases[] = {
      {"prefill", 512, 0, RunAppend},      {"append", 32, 4096, RunAppend},
      {"decode", 64, 0, RunConversations}, {"conversations", 32, 256, RunConversations},
      {"endless", 0, 0, RunEndless},       {"memory", 4096, 0, RunMemory},
  };
  for (const Case& c : cases) {
    if (o.which != c.name) continue;
    if (o.tokens == 0) o.tokens = c.tokens;
    if (o.depth < 0) o.depth = c.depth;
    if (o.which == "decode") o.conversations = 1;
    if (o.which != "endless" && (o.tokens < 1 || o.conversations < 1)) Fail("nothing to run");
    c.run(o);
    return 0;
  }
  Fail("--case: prefill, append, decode, conversations, endless or memory");
}
