package dev.starforge.data.git;

import java.util.List;
import org.eclipse.jgit.diff.DiffAlgorithm;
import org.eclipse.jgit.diff.Edit;
import org.eclipse.jgit.diff.EditList;
import org.eclipse.jgit.diff.HistogramDiff;
import org.eclipse.jgit.diff.MyersDiff;
import org.eclipse.jgit.diff.RawText;
import org.eclipse.jgit.diff.RawTextComparator;
import org.eclipse.jgit.diff.Sequence;
import org.eclipse.jgit.diff.SequenceComparator;

/**
 * Line differences by JGit's histogram diff, which gives the numbers of {@code git diff --histogram}. Regions in which every
 * common line is frequent go to Myers' algorithm; JGit's takes time quadratic in their length, so a region of more than
 * {@value #MAX_MYERS_LINES} lines is replaced as a whole.
 */
final class LineDiff {
    private static final int MAX_MYERS_LINES = 4096;

    private static final DiffAlgorithm HISTOGRAM = histogram();

    private LineDiff() {}

    private static DiffAlgorithm histogram() {
        HistogramDiff histogram = new HistogramDiff();
        histogram.setFallbackAlgorithm(new BoundedMyers());
        return histogram;
    }

    static List<FilePatch.LineEdit> edits(byte[] oldContent, byte[] newContent) {
        return HISTOGRAM.diff(RawTextComparator.DEFAULT, new RawText(oldContent), new RawText(newContent)).stream()
                .map(edit -> new FilePatch.LineEdit(edit.getBeginA(), edit.getEndA(), edit.getBeginB(), edit.getEndB()))
                .toList();
    }

    private static final class BoundedMyers extends DiffAlgorithm {
        @Override
        public <S extends Sequence> EditList diffNonCommon(SequenceComparator<? super S> comparator, S a, S b) {
            return a.size() + b.size() <= MAX_MYERS_LINES
                    ? MyersDiff.INSTANCE.diffNonCommon(comparator, a, b)
                    : EditList.singleton(new Edit(0, a.size(), 0, b.size()));
        }
    }
}
