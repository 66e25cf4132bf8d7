import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment.TaskIds;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka's own share consumers and Streams applications in one JVM, told what to do by lines on standard input. What the
 * broker says of their groups goes to standard output, a line for each description: the group, its epoch and its target
 * epoch, and for each member its id, epoch and what it has. modern_groups_log.py writes and reads the lines.
 *
 * Argument: the bootstrap servers.
 */
public final class ModernGroups {
    private interface Application {
        void subscribe(List<String> topics);

        void close();
    }

    private static final class ShareConsumer extends Thread implements Application {
        private final ConcurrentLinkedQueue<Runnable> asked = new ConcurrentLinkedQueue<>();
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private boolean isClosed;

        ShareConsumer(Properties settings, List<String> topics) {
            settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
            consumer = new KafkaShareConsumer<>(settings);
            consumer.subscribe(topics);
            setDaemon(true);
            start();
        }

        @Override
        public void subscribe(List<String> topics) {
            asked.add(() -> consumer.subscribe(topics));
        }

        @Override
        public void close() {
            Semaphore closed = new Semaphore(0);
            asked.add(() -> {
                consumer.close();
                isClosed = true;
                closed.release();
            });
            closed.acquireUninterruptibly();
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

    private record Streams(KafkaStreams streams) implements Application {
        static Streams of(Properties settings, List<String> topics) {
            settings.put("group.protocol", "streams");
            settings.put("default.key.serde", Serdes.BytesSerde.class.getName());
            settings.put("default.value.serde", Serdes.BytesSerde.class.getName());
            KafkaStreams streams = new KafkaStreams(topology(topics), settings);
            streams.start();
            return new Streams(streams);
        }

        /** Each topic is counted by key; all but the first by another key, which needs a repartition topic. */
        private static Topology topology(List<String> topics) {
            StreamsBuilder builder = new StreamsBuilder();
            for (String topic : topics) {
                var records = builder.stream(topic, Consumed.with(Serdes.Bytes(), Serdes.Bytes()));
                var keyed = topic.equals(topics.get(0)) ? records.groupByKey() : records.groupBy((key, value) -> value);
                keyed.count(Materialized.<Bytes, Long>as(Stores.inMemoryKeyValueStore("count-" + topic))
                    .withValueSerde(Serdes.Long()));
            }
            return builder.build();
        }

        @Override
        public void subscribe(List<String> topics) {
            throw new UnsupportedOperationException("a Streams application has the topics of its topology");
        }

        @Override
        public void close() {
            streams.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Duration.ofSeconds(20)));
        }
    }

    private static String units(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(","));
    }

    private static String tasks(List<TaskIds> tasks) {
        var names = new TreeSet<String>();
        tasks.forEach(each -> each.partitions().forEach(number -> names.add(each.subtopologyId() + "_" + number)));
        return String.join(",", names);
    }

    private static void describe(Admin admin, String kind, String group) throws Exception {
        var members = new TreeMap<String, String>();
        String head;
        if (kind.equals("share")) {
            ShareGroupDescription told = admin.describeShareGroups(List.of(group)).describedGroups().get(group).get();
            head = told.groupState() + "\t" + told.groupEpoch() + "\t" + told.targetAssignmentEpoch();
            told.members().forEach(each -> members.put(each.consumerId(), String.join(";", each.clientId(),
                Integer.toString(each.memberEpoch()), units(each.assignment().topicPartitions()))));
        } else {
            StreamsGroupDescription told =
                admin.describeStreamsGroups(List.of(group)).describedGroups().get(group).get();
            head = told.groupState() + "\t" + told.groupEpoch() + "\t" + told.targetAssignmentEpoch();
            told.members().forEach(each -> members.put(each.memberId(), String.join(";", each.clientId(),
                Integer.toString(each.memberEpoch()), tasks(each.assignment().activeTasks()),
                tasks(each.assignment().standbyTasks()), tasks(each.assignment().warmupTasks()))));
        }
        String all = members.entrySet().stream().map(each -> each.getKey() + ";" + each.getValue())
            .collect(Collectors.joining("\t"));
        System.out.println(String.join("\t", group, head, all));
    }

    private static Application start(String bootstrapServers, String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        for (int i = 4; i < words.length; i += 2) {
            settings.put(words[i], words[i + 1]);
        }
        List<String> topics = List.of(words[3].split(","));
        return words[1].equals("share") ? new ShareConsumer(settings, topics) : Streams.of(settings, topics);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Application> applications = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split("\t");
                switch (words[0]) {
                    case "start" -> applications.put(words[2], start(arguments[0], words));
                    case "subscribe" -> applications.get(words[1]).subscribe(List.of(words[2].split(",")));
                    case "close" -> applications.get(words[1]).close();
                    case "describe" -> {
                        try {
                            describe(admin, words[1], words[2]);
                        } catch (ExecutionException error) {  // the group is not there yet
                            System.out.println(String.join("\t", words[2], "Dead", "0", "0"));
                        }
                    }
                    default -> throw new IllegalArgumentException(line);
                }
            }
        }
    }
}
