import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own consumers in one JVM, each with a poll loop in a thread of its own, told what to do by lines on standard
 * input; what they are given and what is taken from them goes to standard output. consumer_host.py says the same lines
 * with other clients, and matrix.py writes and reads them.
 *
 * Argument: the bootstrap servers.
 */
public final class Consumers {
    private static final String DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer";

    private static synchronized void say(String name, String event, Collection<TopicPartition> partitions) {
        String units = partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(","));
        System.out.println(String.join("\t", name, event, Long.toString(System.currentTimeMillis()), units));
    }

    private record Stop(TopicPartition place, long offset, boolean closes) {
        static Stop of(String[] words) {
            int dash = words[2].lastIndexOf('-');
            TopicPartition place =
                new TopicPartition(words[2].substring(0, dash), Integer.parseInt(words[2].substring(dash + 1)));
            return new Stop(place, Long.parseLong(words[3]), words[4].equals("close"));
        }
    }

    private static final class Application extends Thread implements ConsumerRebalanceListener {
        private final Queue<Runnable> asked = new ConcurrentLinkedQueue<>();
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Semaphore resumed = new Semaphore(0);
        private final boolean isAsync;
        private boolean hasFailed;
        private boolean isClosed;
        private volatile long paceMs;
        private volatile Stop stop;
        private volatile int[] commits;
        private long committedAtMs;

        Application(String name, Properties settings, List<String> topics) {
            super(name);
            isAsync = "consumer".equals(settings.getProperty("group.protocol"));
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(topics, this);
            setDaemon(true);
            start();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say(getName(), "assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            say(getName(), "revoked", partitions);
        }

        void close() {
            consumer.close();
            isClosed = true;
            say(getName(), "closed", List.of());
        }

        void rewind(long records) {
            for (TopicPartition place : consumer.assignment()) {
                consumer.seek(place, Math.max(0, consumer.position(place) - records));
            }
        }

        /**
         * The consumer of KIP-848 throws an error that ends its membership once. Afterwards each poll tests without a
         * pause whether there are records until its time is over, and takes a core: so it gets no time then.
         */
        private ConsumerRecords<byte[], byte[]> next() {
            if (!hasFailed) {
                return consumer.poll(Duration.ofMillis(100));
            }
            rest(100);
            ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ZERO);
            hasFailed = found.isEmpty();
            return found;
        }

        private void poll() {
            Map<TopicPartition, Long> done = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> each : next()) {
                TopicPartition place = new TopicPartition(each.topic(), each.partition());
                if (stop != null && stop.place.equals(place) && each.offset() >= stop.offset) {
                    stopAtRecord(done);
                    return;
                }
                rest(paceMs);
                done.put(place, each.offset() + 1);
            }
            if (commits != null && System.currentTimeMillis() > committedAtMs + 1000) {
                committedAtMs = System.currentTimeMillis();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (TopicPartition place : consumer.assignment()) {
                    long offset = consumer.position(place) + commits[0];
                    if (offset >= 0) {
                        offsets.put(place, new OffsetAndMetadata(offset, "x".repeat(commits[1])));
                    }
                }
                consumer.commitAsync(offsets, null);
            }
        }

        /** What was handed out and not done is given out again: from the record at which it stopped, or of others. */
        private void stopAtRecord(Map<TopicPartition, Long> done) {
            consumer.seek(stop.place, stop.offset);
            done.forEach((place, offset) -> {
                if (!place.equals(stop.place)) {
                    consumer.seek(place, offset);
                }
            });
            say(getName(), "failed", List.of());
            if (stop.closes) {
                close();
            } else {
                rest(100);
            }
        }

        private static void rest(long millis) {
            try {
                Thread.sleep(millis);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void run() {
            while (!isClosed) {
                Runnable action = asked.poll();
                if (action != null) {
                    action.run();
                } else {
                    try {
                        poll();
                    } catch (KafkaException error) { // an application that logs it, and polls again
                        say(getName(), "failed", List.of());
                        hasFailed = isAsync;
                        rest(1000);
                    }
                }
            }
        }
    }

    private static Application start(String bootstrapServers, String[] words) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", bootstrapServers,
            "key.deserializer", DESERIALIZER,
            "value.deserializer", DESERIALIZER));
        for (int i = 3; i < words.length; i += 2) {
            settings.put(words[i], words[i + 1]);
        }
        return new Application(words[1], settings, List.of(words[2].split(",")));
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Application> applications = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            Application one = applications.get(words[1]);
            switch (words[0]) {
                case "start" -> applications.put(words[1], start(arguments[0], words));
                case "subscribe" -> one.asked.add(() -> one.consumer.subscribe(List.of(words[2].split(",")), one));
                case "stall" -> one.asked.add(one.resumed::acquireUninterruptibly);
                case "resume" -> one.resumed.release();
                case "pace" -> one.paceMs = Long.parseLong(words[2]);
                case "stop" -> one.stop = Stop.of(words);
                case "pause" -> one.asked.add(() -> one.consumer.pause(one.consumer.assignment()));
                case "rewind" -> one.asked.add(() -> one.rewind(Long.parseLong(words[2])));
                case "commit" -> one.commits = new int[] {Integer.parseInt(words[2]), Integer.parseInt(words[3])};
                case "close" -> one.asked.add(one::close);
                default -> throw new IllegalArgumentException(line);
            }
        }
    }
}
