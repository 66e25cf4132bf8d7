// Writes tests/transforms/shares/rules/data/combined.jsonl: random batches, and what Kafka's own
// PersisterStateBatchCombiner makes of them. From the root of the tree:
//
//   java -cp '.jars/kafka/*' tests/transforms/shares/rules/java/CombinerOracle.java \
//     > tests/transforms/shares/rules/data/combined.jsonl
//
// A line is [start offset, batches so far, new batches, combined]; a batch is [first, last, state, count].
// Batches so far don't overlap, as a coordinator has them; new ones may. The same JARs give the same file.

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

public class CombinerOracle {
    static final byte[] STATES = {0, 2, 4};

    static List<PersisterStateBatch> random(Random random, int size, int most, int deliveries) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (int i = random.nextInt(size + 1); i > 0; i--) {
            long first = random.nextInt(most);
            found.add(new PersisterStateBatch(
                first, first + random.nextInt(6), STATES[random.nextInt(3)], (short) (1 + random.nextInt(deliveries))));
        }
        return found;
    }

    static String shown(List<PersisterStateBatch> batches) {
        return batches.stream()
            .map(b -> "[" + b.firstOffset() + "," + b.lastOffset() + "," + b.deliveryState() + "," + b.deliveryCount() + "]")
            .collect(Collectors.joining(",", "[", "]"));
    }

    public static void main(String[] arguments) {
        Random random = new Random(932);
        for (int i = 0; i < 1000; i++) {
            long before = random.nextInt(4) == 0 ? -1 : random.nextInt(10);
            List<PersisterStateBatch> soFar =
                new PersisterStateBatchCombiner(List.of(), random(random, 6, 30, 3), before).combineStateBatches();
            List<PersisterStateBatch> added = random(random, 5, 30, 4);
            long start = Math.max(before, random.nextInt(20) - 5);
            System.out.println("[" + start + "," + shown(soFar) + "," + shown(added) + ","
                + shown(new PersisterStateBatchCombiner(soFar, added, start).combineStateBatches()) + "]");
        }
    }
}
