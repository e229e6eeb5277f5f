package dev.starforge.train.corpus;

import dev.starforge.data.Dataset;
import dev.starforge.data.SampleOrigin;
import dev.starforge.data.Split;
import dev.starforge.data.TokenDocuments;
import dev.starforge.tensor.Philox;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;

/**
 * Selects the newest training documents for a run that has no time for all of them. Half of the token budget goes to
 * current files, which a dataset holds under its last training commit, and half to the changes of the newest commits; tokens
 * that one half does not need go to the other. Documents of one commit are drawn at random with a seed.
 *
 * @param documents the selected documents
 * @param tokens of the selected documents
 * @param of tokens of all candidates
 * @param commits of the selected documents
 * @param ofCommits commits that have documents
 */
public record RecencySampler(BitSet documents, long tokens, long of, int commits, int ofCommits) {
    private static final String FILES = "files-";
    private static final int SITE = 0x4e455753;

    private record Dated(int document, boolean file, SampleOrigin origin, float draw) {}

    /**
     * Draws the sample.
     *
     * @param after excludes documents up to this time, in seconds since 1970
     * @param most token budget, exceeded at most by the last document; 0 selects all
     */
    public static RecencySampler of(Dataset dataset, long after, long most, long seed) {
        TokenDocuments documents = dataset.documents(Split.TRAIN);
        List<Dated> all = new ArrayList<>();
        long of = 0;
        for (int d = 0; d < documents.count(); d++) {
            SampleOrigin origin = dataset.origin(Split.TRAIN, d);
            if (origin.time() > after) {
                boolean file = most > 0 && documents.read(d).id().startsWith(FILES); // all are chosen otherwise
                all.add(new Dated(d, file, origin, Philox.uniform(seed, SITE, d)));
                of += documents.length(d);
            }
        }
        all.sort(Comparator.comparingLong((Dated each) -> -each.origin().time()).thenComparingDouble(Dated::draw));
        long room = most == 0 ? of : most;
        Set<String> commits = new HashSet<>();
        BitSet chosen = new BitSet();
        Iterator<Dated> files = all.stream().filter(Dated::file).iterator();
        Iterator<Dated> changes = all.stream().filter(each -> !each.file()).iterator();
        long taken = take(files, room / 2, documents, chosen, commits);
        taken += take(changes, room - taken, documents, chosen, commits);
        taken += take(files, room - taken, documents, chosen, commits);
        int ofCommits = (int)
                all.stream().map(each -> each.origin().commit()).distinct().count();
        return new RecencySampler(chosen, taken, of, commits.size(), ofCommits);
    }

    private static long take(
            Iterator<Dated> newest, long most, TokenDocuments documents, BitSet chosen, Set<String> commits) {
        long taken = 0;
        while (taken < most && newest.hasNext()) {
            Dated next = newest.next();
            chosen.set(next.document());
            commits.add(next.origin().commit());
            taken += documents.length(next.document());
        }
        return taken;
    }
}
