package dev.starforge.serve.page;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.Auth;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.api.Execution;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.report.Report;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The web UI, {@code GET /}, and its static files. They need no API key; the requests of the page do. The content security policy
 * allows only the page's own files and server.
 *
 * <p>The page is a frame; each view is a script that adds itself to it. The list of scripts determines what a server's page can do.
 */
public final class PageRoutes {
    private static final String POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    private final byte[] index;
    private final Map<String, byte[]> files = new LinkedHashMap<>();

    /** @param views scripts by name, loaded in this order */
    private PageRoutes(Map<String, String> views) {
        put(Report.STYLE, Report.look(Report.STYLE));
        put(Report.FUNCTIONS, Report.look(Report.FUNCTIONS));
        List.of("page.css", "icon.svg", "page.js", "api.js").forEach(name -> put(name, own(name)));
        views.forEach(this::put);
        StringBuilder scripts = new StringBuilder();
        files.keySet().stream()
                .filter(name -> name.endsWith(".js"))
                .forEach(name ->
                        scripts.append("<script src=\"/page/").append(name).append("\" defer></script>\n"));
        index = own("index.html").replace("{scripts}", scripts).getBytes(StandardCharsets.UTF_8);
    }

    /** The page of a worker: try the model, compare it with its adapters. */
    public static PageRoutes ofWorker() {
        return of("answer.js", "ask.js", "try.js", "compare.js");
    }

    /** The page of a pool: its state, and a worker's page for all its models. */
    public static PageRoutes ofPool() {
        return of("pool.js", "answer.js", "ask.js", "try.js", "compare.js");
    }

    private static PageRoutes of(String... scripts) {
        Map<String, String> views = new LinkedHashMap<>();
        List.of(scripts).forEach(name -> views.put(name, own(name)));
        return new PageRoutes(views);
    }

    /**
     * The page of a training run.
     *
     * @param script JavaScript that renders a run, as in its report
     */
    public static PageRoutes ofRun(String script) {
        Map<String, String> views = new LinkedHashMap<>();
        views.put("run.js", script);
        views.put("watch.js", own("watch.js"));
        return new PageRoutes(views);
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute(
                        "GET",
                        "/",
                        Api.NATIVE,
                        Execution.INLINE,
                        Auth.PUBLIC,
                        call -> answer(call, "text/html", index)),
                new ApiRoute("GET", "/page/{id}", Api.NATIVE, Execution.INLINE, Auth.PUBLIC, this::file));
    }

    private void file(Call call) throws IOException {
        byte[] content = files.get(call.pathParameter());
        if (content == null) {
            throw new HttpException(404, "not_found", "no such file");
        }
        String name = call.pathParameter();
        answer(
                call,
                name.endsWith(".css") ? "text/css" : name.endsWith(".js") ? "text/javascript" : "image/svg+xml",
                content);
    }

    private static void answer(Call call, String type, byte[] content) throws IOException {
        call.header("Content-Security-Policy", POLICY);
        call.header("X-Content-Type-Options", "nosniff");
        call.header("Referrer-Policy", "no-referrer");
        call.header("Cache-Control", "no-cache");
        call.respond(200, type + "; charset=utf-8", content);
    }

    private void put(String name, String text) {
        files.put(name, text.getBytes(StandardCharsets.UTF_8));
    }

    private static String own(String name) {
        return Report.read(name, PageRoutes.class.getResourceAsStream(name));
    }
}
