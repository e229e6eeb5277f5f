package dev.starforge.serve.page;

import dev.starforge.serve.api.Api;
import dev.starforge.serve.api.ApiRoute;
import dev.starforge.serve.api.ApiRoute.Weight;
import dev.starforge.serve.api.Call;
import dev.starforge.serve.http.HttpException;
import dev.starforge.text.report.Report;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The page that a browser shows, {@code GET /}, and its files: plain HTML, CSS and scripts, the same for everybody, so they need
 * no key; what the page then asks for does. Its policy lets it run its own files and talk to its own server, and nothing else.
 *
 * <p>A page is a frame and its views, each a script that adds itself to the frame; so what a server can do is which scripts it
 * has, and one that can do more (a pool) is a longer list.
 */
public final class PageRoutes {
    private static final String POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

    private final byte[] index;
    private final Map<String, byte[]> files = new LinkedHashMap<>();

    /** @param views text of scripts by name, loaded in this order */
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

    /** A worker's: try its model, compare it with its adapters. */
    public static PageRoutes ofWorker() {
        return of("answer.js", "ask.js", "try.js", "compare.js");
    }

    /** A pool's: watch it, and what a worker's does with all its models. */
    public static PageRoutes ofPool() {
        return of("pool.js", "answer.js", "ask.js", "try.js", "compare.js");
    }

    private static PageRoutes of(String... scripts) {
        Map<String, String> views = new LinkedHashMap<>();
        List.of(scripts).forEach(name -> views.put(name, own(name)));
        return new PageRoutes(views);
    }

    /**
     * A run's: watch it.
     *
     * @param script that lays a run out, as in its report
     */
    public static PageRoutes ofRun(String script) {
        Map<String, String> views = new LinkedHashMap<>();
        views.put("run.js", script);
        views.put("watch.js", own("watch.js"));
        return new PageRoutes(views);
    }

    public List<ApiRoute> routes() {
        return List.of(
                new ApiRoute("GET", "/", Api.NATIVE, Weight.OPEN, call -> answer(call, "text/html", index)),
                new ApiRoute("GET", "/page/{id}", Api.NATIVE, Weight.OPEN, this::file));
    }

    private void file(Call call) throws IOException {
        byte[] content = files.get(call.pathParameter());
        if (content == null) {
            throw new HttpException(404, "not_found", "the page has no such file");
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
