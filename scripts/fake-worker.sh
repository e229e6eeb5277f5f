# Sourced: fake_worker CLASS ARGUMENTS... runs a main of serve's tests, which work on a worker over a fake engine.

fake_worker() {
    local path main=$1
    shift
    find_jdk 25
    mkdir -p serve/target
    ./mvnw -q -Dquick -pl serve -am test-compile dependency:build-classpath -Dmdep.outputFile="$PWD/serve/target/classpath" \
        -Dmdep.includeScope=test
    path=$(printf "$PWD/%s:" serve/target/quick/{classes,test-classes} {data,model,tensor}/target/quick/classes)
    path+=$(cat serve/target/classpath)
    # where the tests run, since the fake engine looks for its tokenizer beside it
    cd serve
    exec "$JAVA_HOME/bin/java" -Xmx512m -cp "$path" "dev.starforge.serve.$main" "$@"
}
