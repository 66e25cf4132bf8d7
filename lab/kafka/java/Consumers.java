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
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
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

    private static final class Application extends Thread implements ConsumerRebalanceListener {
        private final Queue<Runnable> asked = new ConcurrentLinkedQueue<>();
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Semaphore resumed = new Semaphore(0);
        private boolean isClosed;

        Application(String name, Properties settings, List<String> topics) {
            super(name);
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

        @Override
        public void run() {
            while (!isClosed) {
                Runnable action = asked.poll();
                if (action != null) {
                    action.run();
                } else {
                    consumer.poll(Duration.ofMillis(100));
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
                case "close" -> one.asked.add(one::close);
                default -> throw new IllegalArgumentException(line);
            }
        }
    }
}
