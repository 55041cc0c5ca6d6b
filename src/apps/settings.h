// Every setting there is, as plain structs with their defaults. apps/options.cc declares each one
// once (name, limits, help); flags, environment, file keys and help all come from that table.
//
// Thread rule: plain values.
#ifndef MOORING_APPS_SETTINGS_H_
#define MOORING_APPS_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mooring {

// "auto" is kept as an empty optional, and resolved where the value is used.
struct Settings {
  // Top-level keys of the file: the seed system's five, and what chooses the hardware.
  std::string engine = "auto";         // auto | cpu | cuda | tensorrt
  std::string precision = "auto";      // auto | fp32 | bf16 | fp16 | int8
  std::optional<int64_t> window_size;  // tokens attended to; auto: 2,048 or the trained length
  bool window_from_flag = false;       // a flag above the trained length is refused, a file clipped
  bool force_window = false;
  int64_t max_batch_size = 8;
  std::string kv_cache_policy = "dynamic";  // dynamic | block
  std::string use_cuda_graph = "auto";
  std::string profile = "auto";    // auto | laptop | t4-v100 | a100-h100
  std::optional<int64_t> threads;  // auto: every usable core
  std::string isa = "auto";

  struct Model {
    std::string path = "smollm2";        // a name or a path
    std::string chat_template = "auto";  // auto | a built-in name | a file
    std::string sha256;                  // empty: not pinned
  } model;

  struct Memory {
    std::string policy = "recall";
    std::optional<int64_t> anchors;  // auto: two pages under recall where there is room, else 4
    double recall = 0.125;           // share of the window for what comes back; 0: off
    std::string encoder = "all-minilm-l6-v2";  // a name, a folder, or none: by words only
    std::string key_value = "auto";            // auto | int8 | fp16 | f32
    int64_t archive_ram_bytes = 256 << 20;     // of spans that were read again; 0: keep none
  } memory;

  struct Sampling {
    double temperature = 0.7;
    double top_p = 0.95;
    int64_t top_k = 40;
    double min_p = 0.05;
    double repeat_penalty = 1.0;
    double presence_penalty = 0.0;
    double dry_multiplier = 0.8;
    double dry_base = 1.75;
    int64_t dry_allowed_length = 4;
    int64_t max_tokens = 2048;
    std::optional<int64_t> seed;  // none: drawn for each turn
    std::vector<std::string> stop;
  } sampling;

  struct Server {
    std::string listen = "127.0.0.1:7437";  // or unix:PATH
    std::string api_keys_file;              // empty: no keys, and this machine only
    int64_t max_connections = 1024;
    int64_t queue = 512;               // turns that wait or run
    std::optional<int64_t> key_queue;  // of them, those of one key; auto: half, of several
    std::optional<int64_t> requests_per_minute;  // of one key; none: no limit
    int64_t body_bytes = 8 << 20;
  } server;

  struct Conversations {
    std::string state_dir = "auto";
    std::string match = "messages";  // messages | off
  } conversations;

  struct Log {
    std::string level = "info";
  } log;
};

}  // namespace mooring

#endif  // MOORING_APPS_SETTINGS_H_
