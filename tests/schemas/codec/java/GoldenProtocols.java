// Writes tests/codec/golden/{consumer_protocol,connect_protocol,sticky_assignor,control_record}.txt:
// bytes that Kafka's own classes make of what clients and transaction coordinators write, beside what
// Kafka's own schemas read back. From the root of the tree:
//
//   java -cp '.jars/kafka/*' tests/codec/java/GoldenProtocols.java tests/codec/golden

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;

public class GoldenProtocols {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();
    static final List<TopicPartition> PARTITIONS = List.of(new TopicPartition("orders", 1),
        new TopicPartition("payments", 2147483647), new TopicPartition("orders", 0), new TopicPartition("caf\u00e9 \ud83d\ude00", 3));
    static StringBuilder out;

    public static void main(String[] args) throws Exception {
        write(args[0], "consumer_protocol.txt", "ConsumerProtocol (kafka-clients-4.2.0.jar)", GoldenProtocols::consumerProtocol);
        write(args[0], "connect_protocol.txt", "ConnectProtocol and IncrementalCooperativeConnectProtocol (connect-runtime-4.2.0.jar)", GoldenProtocols::connectProtocol);
        write(args[0], "sticky_assignor.txt", "StickyAssignor and CooperativeStickyAssignor (kafka-clients-4.2.0.jar)", GoldenProtocols::stickyAssignors);
        write(args[0], "control_record.txt", "MemoryRecords.withEndTransactionMarker (kafka-clients-4.2.0.jar)", GoldenProtocols::controlRecords);
    }

    interface Section { void run() throws Exception; }

    static void write(String directory, String file, String source, Section section) throws Exception {
        out = new StringBuilder("# Made by tests/codec/java/GoldenProtocols.java with the classes of Apache Kafka 4.2.0:\n# " + source
            + ". To make it again, from the root of the tree:\n"
            + "# java -cp '.jars/kafka/*' tests/codec/java/GoldenProtocols.java tests/codec/golden\n\n");
        section.run();
        Files.writeString(Path.of(directory, file), out, StandardCharsets.UTF_8);
    }

    // ---- protocol type "consumer"

    static void consumerProtocol() throws Exception {
        ByteBuffer userData = ByteBuffer.wrap(new byte[] {0, 0, 0, 5});
        for (short version = 0; version <= 3; version++) {
            subscription("v" + version + " empty", bytes(ConsumerProtocol.serializeSubscription(new Subscription(List.of()), version)));
            subscription("v" + version + " full", bytes(ConsumerProtocol.serializeSubscription(
                new Subscription(List.of("payments", "orders", "caf\u00e9 \ud83d\ude00"), userData.duplicate(), PARTITIONS, 2147483647, Optional.of("rack-a")), version)));
            subscription("v" + version + " empty user data", bytes(ConsumerProtocol.serializeSubscription(
                new Subscription(List.of("orders"), ByteBuffer.allocate(0)), version)));
            assignment("v" + version + " empty", bytes(ConsumerProtocol.serializeAssignment(new Assignment(List.of()), version)));
            assignment("v" + version + " full", bytes(ConsumerProtocol.serializeAssignment(new Assignment(PARTITIONS, userData.duplicate()), version)));
        }
        byte[] full = bytes(ConsumerProtocol.serializeSubscription(new Subscription(List.of("orders"), null, PARTITIONS, 7, Optional.empty()), (short) 3));
        byte[] later = Arrays.copyOf(full, full.length + 5);
        later[1] = 4;
        later[later.length - 1] = 9;
        subscription("v4 with more fields", later);
        byte[] given = bytes(ConsumerProtocol.serializeAssignment(new Assignment(PARTITIONS), (short) 3));
        given[0] = 127;
        assignment("v32515", given);
    }

    static void subscription(String name, byte[] bytes) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        short version = buffer.getShort(0);
        short known = (short) Math.min(version, 3);
        block("subscription", name, bytes, version, ConsumerProtocolSubscriptionJsonConverter.write(
            ConsumerProtocol.deserializeConsumerProtocolSubscription(buffer), known));
    }

    static void assignment(String name, byte[] bytes) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        short version = buffer.getShort(0);
        short known = (short) Math.min(version, 3);
        block("assignment", name, bytes, version, ConsumerProtocolAssignmentJsonConverter.write(
            ConsumerProtocol.deserializeConsumerProtocolAssignment(buffer), known));
    }

    // ---- protocol type "connect"

    static void connectProtocol() throws Exception {
        List<String> connectors = List.of("jdbc-source", "caf\u00e9");
        List<ConnectorTaskId> tasks = List.of(new ConnectorTaskId("jdbc-source", 0), new ConnectorTaskId("jdbc-source", 3), new ConnectorTaskId("sink", 1));
        connect("connect_metadata", "v0", bytes(ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://worker-1:8083/", 7L))),
            ConnectProtocol.CONFIG_STATE_V0);
        connect("connect_assignment", "v0", bytes(ConnectProtocol.serializeAssignment(
            new ConnectProtocol.Assignment((short) 0, "leader-1", "http://worker-1:8083/", 9223372036854775807L, connectors, tasks))), ConnectProtocol.ASSIGNMENT_V0);
        connect("connect_assignment", "v0 empty", bytes(ConnectProtocol.serializeAssignment(
            new ConnectProtocol.Assignment((short) 1, "", "", -1L, List.of(), List.of()))), ConnectProtocol.ASSIGNMENT_V0);
        for (short version = 1; version <= 2; version++) {
            boolean sessioned = version == 2;
            ExtendedAssignment full = new ExtendedAssignment(version, (short) 0, "leader-1", "http://worker-1:8083/", 12L,
                connectors, tasks, List.of("old-connector"), List.of(new ConnectorTaskId("old-connector", 5)), 300_000);
            ExtendedAssignment empty = new ExtendedAssignment(version, (short) 1, "leader-1", "", -1L,
                List.of(), List.of(), List.of(), List.of(), 0);
            Schema schema = IncrementalCooperativeConnectProtocol.ASSIGNMENT_V1;
            byte[] fullBytes = bytes(IncrementalCooperativeConnectProtocol.serializeAssignment(full, sessioned));
            connect("connect_assignment", "v" + version + " full", fullBytes, schema);
            connect("connect_assignment", "v" + version + " empty", bytes(IncrementalCooperativeConnectProtocol.serializeAssignment(empty, sessioned)), schema);
            connect("connect_assignment", "v" + version + " without delay", Arrays.copyOf(fullBytes, fullBytes.length - 4), schema);
            metadata("v" + version + " with allocation", bytes(IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState("http://worker-1:8083/", 12L, full), sessioned)));
            byte[] bare = bytes(IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState("http://worker-2:8083/", 0L, null), sessioned));
            metadata("v" + version + " without allocation", bare);
            metadata("v" + version + " ends before allocation", Arrays.copyOf(bare, bare.length - 4));
        }
    }

    static void connect(String kind, String name, byte[] bytes, Schema... schemas) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        short version = buffer.getShort();
        ObjectNode fields = JSON.createObjectNode();
        for (Schema schema : schemas) fields.setAll((ObjectNode) json(schema.read(buffer)));
        block(kind, name, bytes, version, fields);
    }

    static void metadata(String name, byte[] bytes) throws Exception {
        connect("connect_metadata", name, bytes, IncrementalCooperativeConnectProtocol.CONFIG_STATE_V1, IncrementalCooperativeConnectProtocol.ALLOCATION_V1);
    }

    // ---- user data of the sticky assignors

    @SuppressWarnings("removal") // the constructor that clients call
    static void stickyAssignors() throws Exception {
        ConsumerGroupMetadata metadata = new ConsumerGroupMetadata("g", 41, "member", Optional.empty());
        for (ConsumerPartitionAssignor assignor : List.of(new StickyAssignor(), new CooperativeStickyAssignor())) {
            assignor.onAssignment(new Assignment(PARTITIONS), metadata);
            boolean sticky = assignor instanceof StickyAssignor;
            byte[] bytes = bytes(assignor.subscriptionUserData(Set.of("orders")));
            Schema schema = schema(assignor.getClass(), sticky ? "STICKY_ASSIGNOR_USER_DATA_V1" : "COOPERATIVE_STICKY_ASSIGNOR_USER_DATA_V0");
            block(sticky ? "sticky" : "cooperative_sticky", "generation 41", bytes, sticky ? 1 : 0, json(schema.read(ByteBuffer.wrap(bytes))));
            if (sticky) {
                Schema v0 = schema(assignor.getClass(), "STICKY_ASSIGNOR_USER_DATA_V0");
                byte[] old = Arrays.copyOf(bytes, bytes.length - 4);
                block("sticky", "without generation", old, 0, json(v0.read(ByteBuffer.wrap(old))));
            }
        }
        CooperativeStickyAssignor fresh = new CooperativeStickyAssignor();
        byte[] bytes = bytes(fresh.subscriptionUserData(Set.of("orders")));
        block("cooperative_sticky", "before any assignment", bytes, 0,
            json(schema(fresh.getClass(), "COOPERATIVE_STICKY_ASSIGNOR_USER_DATA_V0").read(ByteBuffer.wrap(bytes))));
    }

    static Schema schema(Class<?> owner, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return (Schema) field.get(null);
    }

    // ---- transaction markers

    static void controlRecords() {
        for (ControlRecordType type : List.of(ControlRecordType.COMMIT, ControlRecordType.ABORT)) {
            for (int epoch : new int[] {0, 2147483647}) {
                MemoryRecords batch = MemoryRecords.withEndTransactionMarker(1L, (short) 0, new EndTransactionMarker(type, epoch));
                Record record = batch.records().iterator().next();
                out.append("name: ").append(type).append(' ').append(epoch).append('\n');
                out.append("key: ").append(HEX.formatHex(bytes(record.key()))).append('\n');
                out.append("value: ").append(HEX.formatHex(bytes(record.value()))).append('\n');
                out.append("json: {\"committed\":").append(type == ControlRecordType.COMMIT)
                    .append(",\"coordinator_epoch\":").append(EndTransactionMarker.deserialize(record).coordinatorEpoch()).append("}\n\n");
            }
        }
    }

    // ---- output

    static void block(String kind, String name, byte[] bytes, int version, JsonNode fields) throws Exception {
        out.append("name: ").append(kind).append(' ').append(name).append('\n');
        out.append("kind: ").append(kind).append('\n');
        out.append("bytes: ").append(HEX.formatHex(bytes)).append('\n');
        out.append("version: ").append(version).append('\n');
        out.append("json: ").append(JSON.writeValueAsString(fields)).append("\n\n");
    }

    /** A struct of Kafka's older schemas with the names that they give. */
    static JsonNode json(Object value) {
        if (value instanceof Struct struct) {
            ObjectNode node = JSON.createObjectNode();
            for (BoundField field : struct.schema().fields()) node.set(field.def.name, json(struct.get(field)));
            return node;
        }
        if (value instanceof Object[] items) {
            ArrayNode node = JSON.createArrayNode();
            for (Object item : items) node.add(json(item));
            return node;
        }
        return JSON.valueToTree(value instanceof ByteBuffer buffer ? bytes(buffer) : value);
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
