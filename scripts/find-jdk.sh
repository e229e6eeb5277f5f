# Finds a JDK. Sourced by mvnw, scripts/build and dev, so that they use the same one.
#
# The `java` on the PATH is often not the newest of a machine, and JAVA_HOME is often unset or old. The first candidate that is a
# JDK (not a JRE) of the required version is used. Versions are read from the `release` file, because starting a JVM for each
# candidate is slow. POSIX sh, no GNU tools.

# java_folder COMMAND: the installation that a `java` command belongs to. `readlink -f` is not portable.
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

# java_version FOLDER: the feature release (17, 25), or nothing.
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

# find_jdk VERSION [ROOT]: exports JAVA_HOME, or prints on stderr what it found instead, and fails. Tests pass ROOT, below
# which the folders of the machine are searched.
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
        # An installation has lib/modules; a folder such as /usr has only bin/java.
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
