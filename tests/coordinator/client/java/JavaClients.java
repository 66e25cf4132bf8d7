import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A minute in the life of four real consumers, and the broker that they talk to, in one JVM: what test_java_client.py
 * plays with the client model, step by step. The broker's request log is what java_client.json was made of.
 *
 * Arguments: the broker's formatted server.properties. System properties: clients.bootstrap, clients.strategy (class
 * names, with commas), clients.records (any value: a record goes to each partition every 300 ms).
 */
public final class JavaClients {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";

    /** A consumer and its poll loop; what is asked of it happens between two polls. */
    private static final class Application extends Thread {
        private final Queue<Runnable> asked = new ConcurrentLinkedQueue<>();
        private volatile boolean isClosed;
        final KafkaConsumer<byte[], byte[]> consumer;

        Application(String name, String... settings) {
            Properties properties = new Properties();
            properties.putAll(Map.of(
                "bootstrap.servers", System.getProperty("clients.bootstrap"),
                "group.id", "group",
                "client.id", name,
                "key.deserializer", BYTES + "Deserializer",
                "value.deserializer", BYTES + "Deserializer",
                "partition.assignment.strategy", System.getProperty("clients.strategy"),
                "auto.offset.reset", "earliest"));
            properties.putAll(Map.of(
                "session.timeout.ms", "6000",
                "heartbeat.interval.ms", "500",
                "max.poll.interval.ms", "4000",
                "auto.commit.interval.ms", "1000"));
            for (int i = 0; i < settings.length; i += 2) {
                properties.put(settings[i], settings[i + 1]);
            }
            consumer = new KafkaConsumer<>(properties);
            consumer.subscribe(List.of("payments"));
            setDaemon(true);
            start();
        }

        void ask(Runnable action) {
            asked.add(action);
        }

        void process(int milliseconds) {
            ask(() -> pause(milliseconds));
        }

        void close() {
            ask(() -> {
                consumer.close();
                isClosed = true;
            });
        }

        @Override
        public void run() {
            while (!isClosed) {
                Runnable action = asked.poll();
                if (action != null) {
                    action.run();
                } else if (consumer.subscription().isEmpty()) {
                    pause(20);
                } else {
                    consumer.poll(Duration.ofMillis(100));
                }
            }
        }
    }

    private static void pause(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void produce() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", System.getProperty("clients.bootstrap"),
            "key.serializer", BYTES + "Serializer",
            "value.serializer", BYTES + "Serializer");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        while (true) {
            for (int partition = 0; partition < 6; partition++) {
                producer.send(new ProducerRecord<>("payments", partition, null, new byte[1]));
            }
            pause(300);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread broker = new Thread(() -> kafka.Kafka.main(arguments));
        broker.start();
        pause(10_000);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", System.getProperty("clients.bootstrap")))) {
            admin.createTopics(List.of(new NewTopic("payments", 6, (short) 1), new NewTopic("orders", 2, (short) 1)))
                .all().get();
        }
        if (System.getProperty("clients.records") != null) {
            Thread producer = new Thread(JavaClients::produce);
            producer.setDaemon(true);
            producer.start();
        }
        Application a = new Application("a");
        pause(6_000);
        Application b = new Application("b");
        pause(5_000);
        Application c = new Application("c");
        pause(5_000);
        c.process(6_000); // longer than max.poll.interval.ms
        pause(10_000);
        a.ask(() -> a.consumer.subscribe(List.of("payments", "orders")));
        pause(4_000);
        b.close();
        pause(4_000);
        c.ask(c.consumer::unsubscribe);
        pause(3_000);
        a.close();
        pause(2_000);
        Application s = new Application("s", "group.instance.id", "one");
        pause(3_000);
        s.process(5_000);
        pause(8_000);
        s.close();
        pause(1_500);
        System.out.println("the clients are done");
    }
}
