@echo off
rem starforge COMMAND ...: the launcher on Windows, beside a `lib` folder and a `runtime`, or with the Java of JAVA_HOME.
rem Why each option is here is said in the launcher for other systems, `starforge`; a test holds the two together.
rem STARFORGE_JAVA_OPTS: further options for the JVM, such as -Xmx8g.
setlocal
set "HERE=%~dp0"
set "JAVA=%HERE%runtime\bin\java.exe"
if not exist "%JAVA%" if defined JAVA_HOME set "JAVA=%JAVA_HOME%\bin\java.exe"
if not exist "%JAVA%" set "JAVA=java.exe"
rem No parentheses: one in the path of this folder, as in "Program Files (x86)", would end them.
if not exist "%HERE%lib" echo starforge: there is no "%HERE%lib"; run this from a bundle, sources are built with bash and ./starforge 1>&2
if not exist "%HERE%lib" exit /b 1
if defined CUDA_HOME set "PATH=%PATH%;%CUDA_HOME%\bin"
set "HEAP="
if "%~1"=="dataset" set "HEAP=-Xmx1g"
if "%~1"=="tune" set "HEAP=-Xmx1g"
"%JAVA%" --module-path "%HERE%lib" ^
    --enable-native-access=dev.starforge.cpu,dev.starforge.cuda,dev.starforge.metal ^
    -XX:+DisplayVMOutputToStderr -Xlog:disable "-Xlog:all=warning,aot*=off:stderr" ^
    -XX:+UnlockExperimentalVMOptions -XX:+EnableVectorSupport -XX:+EnableVectorReboxing -XX:+EnableVectorAggressiveReboxing ^
    -XX:+UnlockDiagnosticVMOptions -XX:-UseFPUForSpilling ^
    -XX:+UseSerialGC -XX:MaxNewSize=160m %HEAP% ^
    %STARFORGE_JAVA_OPTS% -m dev.starforge.cli/dev.starforge.cli.Main %*
exit /b %ERRORLEVEL%
