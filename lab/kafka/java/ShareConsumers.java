import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Kafka's own share consumer, which does to each record what the record says: its value has a word for each delivery
 * (accept, release or reject, the last one for all further deliveries), parted by commas. With `leave` it releases the
 * record and ends, as it does with the first byte on standard input. Each delivery is a line on standard output, once
 * the broker has taken the acknowledgement: partition, offset, delivery count, word.
 *
 * Arguments: the bootstrap servers, the group (which begins at the start of the log), the topic.
 */
public final class ShareConsumers {
    private static final String DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer";

    private static boolean isLeaving;

    private static void beginAtTheStart(String bootstrapServers, String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        ConfigEntry entry = new ConfigEntry("share.auto.offset.reset", "earliest");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            admin.incrementalAlterConfigs(
                Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        }
    }

    private static String wordFor(ConsumerRecord<byte[], byte[]> record) {
        String[] words = new String(record.value(), StandardCharsets.UTF_8).split(",");
        return words[Math.min(record.deliveryCount().orElseThrow(), (short) words.length) - 1];
    }

    private static String acknowledge(
            KafkaShareConsumer<byte[], byte[]> consumer, ConsumerRecord<byte[], byte[]> record) {
        String word = wordFor(record);
        isLeaving |= word.equals("leave");
        consumer.acknowledge(record, AcknowledgeType.valueOf(word.equals("leave") ? "RELEASE" : word.toUpperCase()));
        return String.join("\t", Integer.toString(record.partition()), Long.toString(record.offset()),
            Short.toString(record.deliveryCount().orElseThrow()), word);
    }

    public static void main(String[] arguments) throws Exception {
        beginAtTheStart(arguments[0], arguments[1]);
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "share.acknowledgement.mode", "explicit",
            "key.deserializer", DESERIALIZER,
            "value.deserializer", DESERIALIZER));
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (!isLeaving && System.in.available() == 0) {
                StringBuilder said = new StringBuilder();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    said.append(acknowledge(consumer, record)).append('\n');
                }
                consumer.commitSync();
                System.out.print(said);
                System.out.flush();
            }
        }
    }
}
