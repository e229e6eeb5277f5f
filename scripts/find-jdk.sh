# Finds a JDK; sourced by mvnw and by scripts/build, so that both agree on which one.
#
# The `java` on the PATH is often not the newest of a machine, and JAVA_HOME is often unset or old, so neither decides
# alone: the first candidate that is a JDK (not a JRE) of the wanted version wins. Versions are read from the `release`
# file, because starting a JVM per candidate costs more than everything else here. POSIX sh, no GNU tools.

# java_folder COMMAND: the installation a `java` command belongs to (by hand: `readlink -f` is not everywhere).
java_folder() {
    [ -n "$1" ] || return 0
    _file=$1
    while [ -L "$_file" ]; do
        _link=$(readlink "$_file")
        case $_link in
            /*) _file=$_link ;;
            *) _file=$(dirname "$_file")/$_link ;;
        esac
    done
    cd "$(dirname "$_file")/.." 2>/dev/null && pwd -P
}

# java_version FOLDER: its feature release as a number (17, 25), or nothing.
java_version() {
    _version=
    if [ -r "$1/release" ]; then
        _version=$(sed -n 's/^JAVA_VERSION="\(.*\)"/\1/p' "$1/release")
    fi
    if [ -z "$_version" ]; then
        _version=$("$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p')
    fi
    _version=${_version#1.}
    echo "${_version%%[!0-9]*}"
}

# find_jdk VERSION [ROOT]: exports JAVA_HOME, or says on stderr what it found instead, and fails. The folders of the
# machine are looked for below ROOT, which only a test gives.
find_jdk() {
    _root=${2:-}
    _found=
    for _home in \
        "${JAVA_HOME:-}" \
        "$(java_folder "$(command -v java)")" \
        "$_root"/usr/lib/jvm/* "$_root"/usr/java/* "$_root"/usr/local/*jdk* "$_root"/opt/*jdk* "$_root"/opt/java/* \
        "${HOME:-}"/.sdkman/candidates/java/* "${HOME:-}"/.jdks/* \
        "$("$_root"/usr/libexec/java_home -v "$1+" 2>/dev/null)" \
        "$_root"/Library/Java/JavaVirtualMachines/*/Contents/Home \
        "$_root"/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
        "$_root"/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
        "$_root"/home/linuxbrew/.linuxbrew/opt/openjdk*/libexec; do
        # lib/modules tells an installation from a folder that merely holds a bin/java, such as /usr.
        if [ ! -x "$_home/bin/java" ] || [ ! -f "$_home/lib/modules" ]; then continue; fi
        _home=$(cd "$_home" && pwd -P)
        case $_found in *" $_home ("*) continue ;; esac
        _number=$(java_version "$_home")
        _what="version ${_number:-unknown}"
        if [ ! -x "$_home/bin/javac" ]; then
            _what="$_what, a JRE without javac"
        elif [ "${_number:-0}" -ge "$1" ]; then
            JAVA_HOME=$_home
            export JAVA_HOME
            return 0
        fi
        _found="$_found
    $_home ($_what)"
    done
    cat >&2 <<EOF
starforge needs a JDK of version $1 or newer, and found${_found:- none.}
Install one (Linux: the package temurin-$1-jdk or openjdk-$1-jdk; macOS: brew install openjdk@$1;
anywhere: https://adoptium.net), or set JAVA_HOME to one that is installed elsewhere.
EOF
    return 1
}
