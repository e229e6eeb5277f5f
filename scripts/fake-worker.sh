# Sourced after find-jdk.sh: what runs a main of serve's tests, which work on a worker over a fake engine.

# fake_worker_path: compiles what is needed, and prints the class path.
fake_worker_path() {
    mkdir -p serve/target
    ./mvnw -q -Dquick -pl serve -am test-compile dependency:build-classpath -Dmdep.outputFile="$PWD/serve/target/classpath" \
        -Dmdep.includeScope=test >&2
    printf "$PWD/%s:" serve/target/quick/{classes,test-classes} {data,model,tensor}/target/quick/classes
    cat serve/target/classpath
}

# fake_worker MAIN ARGUMENTS...: becomes it, where the tests run, since the fake engine looks for its tokenizer beside it.
fake_worker() {
    local path main=$1
    shift
    find_jdk 25
    path=$(fake_worker_path)
    cd serve
    exec "$JAVA_HOME/bin/java" -Xmx512m -cp "$path" "dev.starforge.serve.$main" "$@"
}
