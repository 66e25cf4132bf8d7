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
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeShareGroupsOptions;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment.TaskIds;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka's own share consumers and Streams applications in one JVM, which obeys lines on standard input. Their words are
 * separated by tabs, as in Consumers.java:
 *
 *     start NAME TOPICS SETTING VALUE ...    its group.protocol is share or streams
 *     subscribe NAME TOPICS | close NAME
 *     describe TYPE GROUP                    answers with one description of a group of this type
 *     watch TYPE GROUP                       from now on answers with one each second, if the brokers answer in time
 *
 * A description is a line: the group, its state, its epoch and its target epoch, and for each member its id, client id,
 * epoch and what it has. That of a watched group has the times of question and answer in front, and that of a share
 * group is followed by the start offset and the lag of each of its partitions. Clients report (NAME EVENT EPOCH_MS
 * PARTITIONS) that they are closed or that a call has failed.
 *
 * Argument: the bootstrap servers.
 */
public final class ModernGroups {
    private static final int WATCH_MS = 1000;
    private static final int TIMEOUT_MS = 4000;

    private static synchronized void say(String... words) {
        System.out.println(String.join("\t", words));
    }

    private static void report(String name, String event) {
        say(name, event, Long.toString(System.currentTimeMillis()), "");
    }

    private interface Application {
        void subscribe(List<String> topics);

        void close();
    }

    private static final class ShareConsumer extends Thread implements Application {
        private final ConcurrentLinkedQueue<Runnable> asked = new ConcurrentLinkedQueue<>();
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private boolean isClosed;

        ShareConsumer(String name, Properties settings, List<String> topics) {
            super(name);
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
                    continue;
                }
                try {
                    consumer.poll(Duration.ofMillis(100));
                } catch (KafkaException error) { // an application that logs it, and polls again
                    report(getName(), "failed");
                    rest(WATCH_MS);
                }
            }
        }
    }

    private record Streams(KafkaStreams streams) implements Application {
        static Streams of(String name, Properties settings, List<String> topics) {
            settings.put("group.protocol", "streams");
            settings.put("default.key.serde", Serdes.BytesSerde.class.getName());
            settings.put("default.value.serde", Serdes.BytesSerde.class.getName());
            KafkaStreams streams = new KafkaStreams(topology(topics), settings);
            streams.setUncaughtExceptionHandler(error -> {
                report(name, "failed");
                return StreamThreadExceptionResponse.REPLACE_THREAD;
            });
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

    private static String describe(Admin admin, String kind, String group) throws Exception {
        var members = new TreeMap<String, String>();
        String head;
        if (kind.equals("share")) {
            var options = new DescribeShareGroupsOptions().timeoutMs(TIMEOUT_MS);
            var found = admin.describeShareGroups(List.of(group), options).describedGroups().get(group).get();
            head = found.groupState() + "\t" + found.groupEpoch() + "\t" + found.targetAssignmentEpoch();
            found.members().forEach(each -> members.put(each.consumerId(), String.join(";", each.clientId(),
                Integer.toString(each.memberEpoch()), units(each.assignment().topicPartitions()))));
        } else if (kind.equals("streams")) {
            var options = new DescribeStreamsGroupsOptions().timeoutMs(TIMEOUT_MS);
            var found = admin.describeStreamsGroups(List.of(group), options).describedGroups().get(group).get();
            head = found.groupState() + "\t" + found.groupEpoch() + "\t" + found.targetAssignmentEpoch();
            found.members().forEach(each -> members.put(each.memberId(), String.join(";", each.clientId(),
                Integer.toString(each.memberEpoch()), tasks(each.assignment().activeTasks()),
                tasks(each.assignment().standbyTasks()), tasks(each.assignment().warmupTasks()))));
        } else {
            var options = new DescribeConsumerGroupsOptions().timeoutMs(TIMEOUT_MS);
            var found = admin.describeConsumerGroups(List.of(group), options).describedGroups().get(group).get();
            head = found.groupState() + "\t" + found.groupEpoch().orElse(-1) + "\t"
                + found.targetAssignmentEpoch().orElse(-1);
            found.members().forEach(each -> members.put(each.consumerId(), String.join(";", each.clientId(),
                Integer.toString(each.memberEpoch().orElse(-1)), units(each.assignment().topicPartitions()))));
        }
        String all = members.entrySet().stream().map(each -> each.getKey() + ";" + each.getValue())
            .collect(Collectors.joining("\t"));
        return String.join("\t", group, head, all);
    }

    private static String positions(Admin admin, String group) throws Exception {
        var asked = Map.of(group, new ListShareGroupOffsetsSpec());
        var options = new ListShareGroupOffsetsOptions().timeoutMs(TIMEOUT_MS);
        var found = admin.listShareGroupOffsets(asked, options).partitionsToOffsetInfo(group).get();
        return found.entrySet().stream().filter(each -> each.getValue() != null)
            .map(each -> String.join(";", each.getKey().toString(), Long.toString(each.getValue().startOffset()),
                Long.toString(each.getValue().lag().orElse(-1L))))
            .sorted().collect(Collectors.joining("\t"));
    }

    private interface Question {
        String answer() throws Exception;
    }

    /** What no broker answers in time leaves no line. */
    private static void ask(String kind, Question question) throws InterruptedException {
        String asked = Long.toString(System.currentTimeMillis());
        try {
            String found = question.answer();
            say(asked, Long.toString(System.currentTimeMillis()), kind, found);
        } catch (InterruptedException error) {
            throw error;
        } catch (Exception error) {
            System.err.println(kind + ": " + error);
        }
    }

    private static void watch(Admin admin, String kind, String group) {
        Thread watch = new Thread(() -> {
            try {
                while (true) {
                    ask(kind, () -> describe(admin, kind, group));
                    if (kind.equals("share")) {
                        ask("positions", () -> group + "\t" + positions(admin, group));
                    }
                    Thread.sleep(WATCH_MS);
                }
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }, group);
        watch.setDaemon(true);
        watch.start();
    }

    private static void rest(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Application start(String bootstrapServers, String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        for (int i = 3; i < words.length; i += 2) {
            settings.put(words[i], words[i + 1]);
        }
        List<String> topics = List.of(words[2].split(","));
        boolean isShare = settings.remove("group.protocol").equals("share");
        return isShare ? new ShareConsumer(words[1], settings, topics) : Streams.of(words[1], settings, topics);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Application> applications = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split("\t");
                switch (words[0]) {
                    case "start" -> applications.put(words[1], start(arguments[0], words));
                    case "subscribe" -> applications.get(words[1]).subscribe(List.of(words[2].split(",")));
                    case "close" -> {
                        applications.get(words[1]).close();
                        report(words[1], "closed");
                    }
                    case "watch" -> watch(admin, words[1], words[2]);
                    case "describe" -> {
                        try {
                            say(describe(admin, words[1], words[2]));
                        } catch (ExecutionException error) {  // the group is not there yet
                            say(words[2], "Dead", "0", "0", "");
                        }
                    }
                    default -> throw new IllegalArgumentException(line);
                }
            }
            // Who gave the commands is gone. The threads of Streams would stay, and without brokers they never rest.
            Runtime.getRuntime().halt(0);
        }
    }
}
