# The Debian packages that building, testing and checking need: the one list there is.
# Sourced by ./run, ./test and .ci/run. README.md says what each library is for.

BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config
  libfmt-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev
  libssl-dev libzip-dev libzstd-dev libxxhash-dev libsqlite3-dev libedit-dev libutf8proc-dev
  libboost1.81-dev libjs-marked node-dompurify
  python3 python3-pip  # `mooring pull` fetches wheels with pip
)
TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev python3-venv)
PAGE_TEST_PACKAGES=(chromium fonts-dejavu-core)  # tests/web/page_test.py, by hand
LINT_PACKAGES=(clang-format clang-tidy git)

say() { echo "$(basename "$0"): $*" >&2; }

# missing_packages NAME...: prints those that are not installed.
missing_packages() {
  local installed name
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for name in "$@"; do
    grep -qxF "installed $name" <<<"$installed" || echo "$name"
  done
}

# ensure_packages NAME...: installs what is missing, or says how to and fails.
ensure_packages() {
  # On another system the build itself names what it lacks.
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || return 0
  local missing as_root=() answer
  mapfile -t missing < <(missing_packages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  local install=(apt-get install -y -q --no-install-recommends "${missing[@]}")
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null || [[ ! -t 0 || ! -t 2 ]]; then
      say "packages are missing; install them with: sudo ${install[*]}"
      return 1
    fi
    say "packages are missing: ${missing[*]}"
    read -r -p "Install them with sudo? [y/N] " answer
    if [[ $answer != [yY]* ]]; then
      say "nothing was installed; the command is: sudo ${install[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  # The package lists may be missing or old: fetch them, then try once more.
  if "${as_root[@]}" "${install[@]}" >"$log" 2>&1 ||
    { "${as_root[@]}" apt-get update -q >"$log" 2>&1 &&
      "${as_root[@]}" "${install[@]}" >>"$log" 2>&1; }; then
    rm -f "$log"
    return 0
  fi
  tail -n 40 "$log" >&2
  rm -f "$log"
  say "that failed; the command was: ${install[*]}"
  return 1
}
