package dev.starforge.train.tune;

import dev.starforge.train.TrainException;
import dev.starforge.train.checkpoint.Checkpoints;
import dev.starforge.train.config.Keys;
import dev.starforge.train.config.RunConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.TreeMap;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;

/**
 * Decides what a call of {@link Tune} does, given the rounds before: nothing only if it asks for nothing else than the last
 * round had. More time or epochs train the last adapter further, other settings train a new one, and both reuse the dataset.
 */
final class TuneHistory {
    private static final double MINUTE = 60;

    private final Tune.Setup setup;
    private final TuneState state;
    private final Optional<TuneRound> last;
    private final String head;
    private final String modelHash;
    private final RunConfig settings;
    private final TuneRequest request;
    private final TuneStart start;

    TuneHistory(Tune.Setup setup, TuneState state, String head, String modelHash) {
        this.setup = setup;
        this.state = state;
        this.head = head;
        this.modelHash = modelHash;
        last = state.last();
        last.ifPresent(round -> requireBase(round.inputs()));
        settings = last.map(round -> setup.config().withDefaults(round.request().settings()))
                .orElse(setup.config());
        boolean sameCommits =
                last.filter(round -> !round.isComplete() || hasHead(round)).isPresent();
        OptionalDouble minutes = sameCommits && !setup.length().asked()
                ? last.orElseThrow().request().minutes()
                : setup.length().minutes();
        request = TuneRequest.of(settings, minutes);
        start = last.map(round -> round.isComplete() ? after(round) : unfinished(round))
                .orElse(TuneStart.FIRST);
        if (start == TuneStart.RESUME) {
            requireTime(last.orElseThrow());
        }
    }

    private boolean hasHead(TuneRound round) {
        return round.inputs().head().equals(head);
    }

    private TuneStart unfinished(TuneRound round) {
        TuneRequest before = round.request();
        boolean same = request.changes(before).isEmpty()
                && !request.changesLength(before)
                && request.minutes().isPresent() == before.minutes().isPresent();
        return same ? TuneStart.RESUME : TuneStart.RESTART;
    }

    private TuneStart after(TuneRound round) {
        TuneRequest before = round.request();
        if (!request.changes(before).isEmpty()) {
            return TuneStart.OTHER_SETTINGS;
        }
        if (!hasHead(round)) {
            return TuneStart.NEW_COMMITS;
        }
        if (request.changesLength(before)) {
            return request.raisesLength(before) ? TuneStart.LONGER : TuneStart.OTHER_SETTINGS;
        }
        boolean longer = request.minutes().isPresent()
                ? request.minutes().getAsDouble() > round.usedMinutes()
                : before.minutes().isPresent();
        return longer ? TuneStart.LONGER : TuneStart.UP_TO_DATE;
    }

    TuneStart start() {
        return start;
    }

    /** The settings of this call, and those of the last round that it does not set. */
    RunConfig settings() {
        return settings;
    }

    /** The round to run. */
    int number() {
        boolean same = start == TuneStart.RESUME || start == TuneStart.RESTART;
        return last.map(TuneRound::number).orElse(0) + (same ? 0 : 1);
    }

    TuneRound.Inputs inputs() {
        return switch (start) {
            case RESUME -> last.orElseThrow().inputs();
            case NEW_COMMITS -> {
                JsonNode data = last.orElseThrow().facts(TuneStep.DATASET);
                yield inputs(
                        last.orElseThrow().number(),
                        data.path("newest_trained").asString(""),
                        data.path("newest_trained_time").asLong(),
                        0);
            }
            case LONGER -> {
                double spent =
                        request.minutes().isPresent() ? last.orElseThrow().usedMinutes() : 0;
                yield inputs(last.orElseThrow().number(), "", Long.MIN_VALUE, spent);
            }
            case FIRST, RESTART, OTHER_SETTINGS, UP_TO_DATE -> inputs(0, "", Long.MIN_VALUE, 0);
        };
    }

    private TuneRound.Inputs inputs(int from, String after, long afterTime, double spentMinutes) {
        return new TuneRound.Inputs(head, setup.base(), modelHash, from, after, afterTime, spentMinutes);
    }

    /** Seconds for the steps of the round; empty if the settings define the length of training. */
    OptionalDouble seconds() {
        return request.minutes().stream()
                .map(minutes -> MINUTE * (minutes - inputs().spentMinutes()))
                .findFirst();
    }

    /** Factor of the default learning rate: an adapter that is trained already changes less. */
    double rateFactor() {
        TuneRound.Inputs inputs = inputs();
        if (setup.config().isSet(Keys.RATE)) {
            return 1;
        }
        return !inputs.after().isEmpty()
                ? Recipe.NEW_COMMITS_RATE
                : request.minutes().stream()
                        .map(minutes -> 1 - inputs.spentMinutes() / minutes)
                        .findFirst()
                        .orElse(1);
    }

    /** Returns true if the dataset has all commits already. */
    boolean reusesDataset() {
        return switch (start) {
            case RESUME -> last.orElseThrow().isDone(TuneStep.DATASET);
            case RESTART -> last.orElseThrow().isDone(TuneStep.DATASET) && hasHead(last.orElseThrow());
            case LONGER -> true;
            case OTHER_SETTINGS -> hasHead(last.orElseThrow());
            case FIRST, NEW_COMMITS, UP_TO_DATE -> false;
        };
    }

    /** Records the round as begun, or the new length of one that continues. */
    TuneRound begin(double tokensPerSecond) {
        if (start == TuneStart.RESUME) {
            TuneRound round = last.orElseThrow();
            round.change(request);
            return round;
        }
        TuneRound.Inputs inputs = inputs();
        if (start == TuneStart.RESTART) {
            Checkpoints.remove(setup.run(number()));
            state.discard();
        }
        return state.begin(inputs, request, tokensPerSecond);
    }

    String whyUpToDate() {
        TuneRound round = last.orElseThrow();
        return setup.length().asked() && request.minutes().isPresent()
                ? String.format(
                        "the model has had %s minutes on this commit, and %s are asked for",
                        plain(round.usedMinutes()), plain(request.minutes().getAsDouble()))
                : "no new commits since the last run, and the same settings";
    }

    /** What is reused, and what is not. */
    List<String> notes() {
        List<String> notes = new ArrayList<>();
        switch (start) {
            case FIRST, UP_TO_DATE -> {}
            case RESUME -> notes.add("continues the unfinished round " + number());
            case RESTART ->
                notes.add("the unfinished round " + number() + " starts over, since it was begun with other settings: "
                        + changes());
            case NEW_COMMITS ->
                notes.add(
                        "the dataset grows by the new commits, and the adapter of " + folder() + " is trained on them");
            case LONGER -> {
                double spent = inputs().spentMinutes();
                notes.add("no new commits, but a longer training: the dataset and the adapter of " + folder()
                        + " are reused"
                        + (spent == 0
                                ? ""
                                : "; " + plain(spent) + " of "
                                        + plain(request.minutes().orElse(spent)) + " minutes are spent"));
            }
            case OTHER_SETTINGS ->
                notes.add("other settings than in the last run, so a new adapter is trained and the dataset is reused: "
                        + changes());
        }
        String kept = new TreeMap<>(request.settings())
                .entrySet().stream()
                        .filter(each -> !setup.config().explicit().containsKey(each.getKey()))
                        .map(each -> each.getKey() + "=" + each.getValue())
                        .collect(Collectors.joining(", "));
        if (!kept.isEmpty()) {
            notes.add("settings of the last run that stay in force: " + kept);
        }
        return notes;
    }

    private String changes() {
        TuneRequest before = last.orElseThrow().request();
        List<String> changes = request.changes(before);
        return changes.isEmpty() ? "the length" : String.join(", ", changes);
    }

    private String folder() {
        return setup.run(last.orElseThrow().number()).toString();
    }

    /** A number of minutes without needless decimals. */
    private static String plain(double minutes) {
        return minutes == Math.rint(minutes)
                ? String.valueOf((long) minutes)
                : String.format(Locale.ROOT, "%.1f", minutes);
    }

    private void requireTime(TuneRound round) {
        double spent = round.inputs().spentMinutes();
        request.minutes().stream().filter(minutes -> minutes <= spent).forEach(minutes -> {
            throw new TrainException("--minutes " + plain(minutes) + ": the unfinished round " + round.number()
                    + " trains an adapter further that has had " + plain(spent)
                    + " minutes on the same commits; pass more than " + plain(spent));
        });
    }

    private void requireBase(TuneRound.Inputs before) {
        if (!modelHash.equals(before.modelHash())) {
            throw new TrainException(setup.output() + ": tunes " + before.model() + " (SHA-256 "
                    + before.modelHash().substring(0, 12) + "), not " + setup.base() + " ("
                    + modelHash.substring(0, 12) + "); choose another folder with --out");
        }
    }
}
