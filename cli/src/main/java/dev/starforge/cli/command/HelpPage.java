package dev.starforge.cli.command;

import java.util.stream.Stream;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.CommandSpec;

/**
 * A help page whose lines do not break inside of a key, a path or a URL. Picocli breaks lines after any full stop or colon; a
 * no-break space prevents that, and is removed from the result.
 */
final class HelpPage extends Help {
    private static final String JOINER = "\u00a0";

    HelpPage(CommandSpec command, ColorScheme colors) {
        super(command, colors);
    }

    @Override
    public String description(Object... params) {
        String[] lines = Stream.of(commandSpec().usageMessage().description())
                .map(HelpPage::joined)
                .toArray(String[]::new);
        int width = commandSpec().usageMessage().width();
        return separated(
                join(ansi(), width, true, lines, new StringBuilder(), params).toString());
    }

    @Override
    public String optionList() {
        return separated(super.optionList());
    }

    @Override
    public String parameterList() {
        return separated(super.parameterList());
    }

    @Override
    public IOptionRenderer createDefaultOptionRenderer() {
        IOptionRenderer renderer = super.createDefaultOptionRenderer();
        return (option, labels, colors) -> joined(renderer.render(option, labels, colors));
    }

    @Override
    public IParameterRenderer createDefaultParameterRenderer() {
        IParameterRenderer renderer = super.createDefaultParameterRenderer();
        return (parameter, labels, colors) -> joined(renderer.render(parameter, labels, colors));
    }

    /** Joins the words of the last column, the description. */
    private Ansi.Text[][] joined(Ansi.Text[][] rows) {
        for (Ansi.Text[] row : rows) {
            int last = row.length - 1;
            row[last] = colorScheme().text(joined(row[last].plainString()));
        }
        return rows;
    }

    private static String joined(String text) {
        return text.replaceAll("(?<=\\S)([./:])(?=\\S)", "$1" + JOINER);
    }

    private static String separated(String text) {
        return text.replace(JOINER, "");
    }
}
