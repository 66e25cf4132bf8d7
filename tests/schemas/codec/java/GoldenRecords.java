// Writes records_*.txt, share_state.txt and both hostile files: records as Kafka's own classes encode them,
// beside what Kafka's own DumpLogSegments prints for them (--offsets-decoder, and for the other topic
// --share-group-state-decoder). From the root of the tree:
//
//   java -cp '.jars/kafka-4.4/*' tests/schemas/codec/java/GoldenRecords.java tests/schemas/codec/golden
//
// Every record type and every value version is filled by reflection over the generated classes, once per
// profile, so that a field can't be forgotten; the classic group gets realistic members besides. The
// hostile file holds damaged copies and the tool's answer to each, decoded or an error. All is
// deterministic: the same JARs give the same files.

import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupRegularExpressionKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupRegularExpressionValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue.MemberMetadata;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class GoldenRecords {
    enum Profile { EMPTY, TYPICAL, NULLS, SMALLEST, LARGEST, UNKNOWN_TAGS }

    static final String UNICODE = "caf\u00e9 \u6d88\u8cbb\u8005 \ud83d\ude00 \"\\/\b\f\n\r\t\u0000\u2028 '; --";
    static final String LONG = "l".repeat(130) + "\u00fc";
    static final HexFormat HEX = HexFormat.of();
    static CoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    static Object tool = parser("OffsetsMessageParser");
    static final Map<String, StringBuilder> FILES = new TreeMap<>();
    static final List<byte[][]> SEEDS = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
            everyVersion(type);
        }
        longArrays();
        classicGroups();
        legacyVersions();
        hostile("hostile.txt");
        shareState();
        for (Map.Entry<String, StringBuilder> file : FILES.entrySet()) {
            Files.writeString(Path.of(args[0], file.getKey()), file.getValue(), StandardCharsets.UTF_8);
        }
    }

    // ---- every record type, every version, every profile

    static void everyVersion(CoordinatorRecordType type) throws Exception {
        ApiMessage value = type.newRecordValue();
        Schema[] schemas = (Schema[]) value.getClass().getField("SCHEMAS").get(null);
        for (short version = value.lowestSupportedVersion(); version <= value.highestSupportedVersion(); version++) {
            for (Profile profile : Profile.values()) {
                ApiMessage key = filledKey(type, profile);
                ApiMessage filled = type.newRecordValue();
                fill(filled, schemas[version], profile, 1);
                String name = snake(type) + " v" + version + " " + profile.name().toLowerCase();
                record(fileOf(type), name, key, new ApiMessageAndVersion(filled, version));
            }
        }
        record(fileOf(type), snake(type) + " tombstone", filledKey(type, Profile.TYPICAL), null);
    }

    static ApiMessage filledKey(CoordinatorRecordType type, Profile profile) throws Exception {
        ApiMessage key = type.newRecordKey();
        fill(key, ((Schema[]) key.getClass().getField("SCHEMAS").get(null))[0], profile, 0);
        return key;
    }

    static String fileOf(CoordinatorRecordType type) {
        String name = snake(type);
        if (name.contains("offset_commit")) return "records_offset_commit.txt";
        if (name.equals("group_metadata")) return "records_group_metadata.txt";
        return "records_" + name.substring(0, name.indexOf("_group")) + "_group.txt";
    }

    static String snake(CoordinatorRecordType type) {
        return type.name().toLowerCase();
    }

    /** Sets every field that the schema of this version has, by its profile. */
    static void fill(Object message, Schema schema, Profile profile, int salt) throws Exception {
        if (profile == Profile.EMPTY) return;
        Map<String, Type> types = new TreeMap<>();
        boolean flexible = false;
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                flexible = true;
                tagged.fields().values().forEach(field -> types.put(camel(field.name), field.type));
            } else {
                types.put(camel(bound.def.name), bound.def.type);
            }
        }
        int position = salt;
        for (Field field : message.getClass().getDeclaredFields()) {
            Type type = types.get(field.getName());
            if (type == null) continue;
            field.setAccessible(true);
            field.set(message, valueOf(field, type, profile, position++));
        }
        if (profile == Profile.UNKNOWN_TAGS && flexible) {
            List<RawTaggedField> unknown = ((Message) message).unknownTaggedFields();
            unknown.add(new RawTaggedField(7, new byte[0]));
            unknown.add(new RawTaggedField(300, new byte[] {1, 2, 3}));
        }
    }

    static Object valueOf(Field field, Type type, Profile profile, int salt) throws Exception {
        Class<?> java = field.getType();
        boolean struct = type instanceof Schema;
        if (profile == Profile.NULLS && (type.isNullable() || struct)) return null;
        if (java == byte[].class) return bytes(profile, salt);
        if (struct) {
            Object nested = java.getDeclaredConstructor().newInstance();
            fill(nested, (Schema) type, profile, salt);
            return nested;
        }
        if (List.class.isAssignableFrom(java)) {
            Class<?> element = (Class<?>) ((ParameterizedType) field.getGenericType()).getActualTypeArguments()[0];
            Type elementType = type.arrayElementType().orElseThrow();
            List<Object> items = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                if (elementType instanceof Schema schema) {
                    Object item = element.getDeclaredConstructor().newInstance();
                    fill(item, schema, profile, salt + i);
                    items.add(item);
                } else {
                    items.add(scalar(element, profile, salt + i));
                }
            }
            return items;
        }
        return scalar(java, profile, salt);
    }

    static Object scalar(Class<?> java, Profile profile, int salt) {
        boolean largest = profile == Profile.LARGEST;
        boolean extreme = largest || profile == Profile.SMALLEST;
        if (java == String.class) return !extreme ? "text-" + salt : largest ? (salt % 2 == 0 ? UNICODE : LONG) : "";
        if (java == Uuid.class) return !extreme ? new Uuid(0x0123456789abcdefL + salt, -salt) : largest ? new Uuid(-1, -1) : Uuid.ZERO_UUID;
        if (java == byte.class || java == Byte.class) return extreme ? largest ? Byte.MAX_VALUE : Byte.MIN_VALUE : (byte) salt;
        if (java == short.class || java == Short.class) return extreme ? largest ? Short.MAX_VALUE : Short.MIN_VALUE : (short) salt;
        if (java == long.class || java == Long.class) return extreme ? largest ? Long.MAX_VALUE : Long.MIN_VALUE : 1_700_000_000_000L + salt;
        return extreme ? largest ? Integer.MAX_VALUE : Integer.MIN_VALUE : salt;
    }

    static byte[] bytes(Profile profile, int salt) {
        if (profile == Profile.SMALLEST) return new byte[0];
        byte[] bytes = new byte[profile == Profile.LARGEST ? 130 : 4];
        Arrays.fill(bytes, (byte) (0xF0 + salt));
        return bytes;
    }

    static String camel(String snake) {
        StringBuilder name = new StringBuilder();
        for (String word : snake.split("_")) {
            name.append(name.isEmpty() ? word : Character.toUpperCase(word.charAt(0)) + word.substring(1));
        }
        return name.toString();
    }

    // ---- counts that take two bytes

    static void longArrays() {
        List<String> topics = new ArrayList<>();
        List<Integer> partitions = new ArrayList<>();
        for (int i = 0; i < 130; i++) {
            topics.add("t" + i);
            partitions.add(i * 10_000_000);
        }
        record("records_consumer_group.txt", "consumer_group_regular_expression v0 long",
            new ConsumerGroupRegularExpressionKey().setGroupId("g").setRegularExpression("t.*"),
            new ApiMessageAndVersion(new ConsumerGroupRegularExpressionValue().setTopics(topics), (short) 0));
        record("records_consumer_group.txt", "consumer_group_target_assignment_member v0 long",
            new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),
            new ApiMessageAndVersion(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setPartitions(partitions))), (short) 0));
    }

    // ---- classic groups as clients make them

    static void classicGroups() throws Exception {
        String file = "records_group_metadata.txt";
        List<String> topics = List.of("orders", "payments", UNICODE);
        List<TopicPartition> owned = List.of(
            new TopicPartition("orders", 0), new TopicPartition("orders", 7), new TopicPartition("payments", 2147483647));
        ByteBuffer userData = ByteBuffer.wrap(new byte[] {0, 0, 0, 5});
        Assignment assignment = new Assignment(List.of(
            new TopicPartition("orders", 1), new TopicPartition("payments", 0), new TopicPartition("orders", 0)));
        for (short version = 0; version <= 3; version++) {
            Subscription full = new Subscription(topics, userData.duplicate(), owned, 41, Optional.of("rack-a"));
            Subscription plain = new Subscription(List.of("orders"));
            classic(file, "group_metadata v3 consumer protocol v" + version, (short) 3, "consumer",
                array(ConsumerProtocol.serializeSubscription(full, version)),
                array(ConsumerProtocol.serializeAssignment(assignment, version)),
                array(ConsumerProtocol.serializeSubscription(plain, version)),
                array(ConsumerProtocol.serializeAssignment(new Assignment(List.of(), userData.duplicate()), version)));
        }
        byte[] v3 = array(ConsumerProtocol.serializeSubscription(
            new Subscription(topics, null, owned, 3, Optional.empty()), (short) 3));
        byte[] bare = array(ConsumerProtocol.serializeSubscription(new Subscription(topics), (short) 3));
        byte[] given = array(ConsumerProtocol.serializeAssignment(assignment, (short) 3));
        byte[] nothing = array(ConsumerProtocol.serializeAssignment(new Assignment(List.of()), (short) 3));
        String name = "group_metadata v3 ";
        classic(file, name + "no bytes", (short) 3, "consumer", new byte[0], new byte[0], new byte[] {0}, new byte[] {0, 1});
        classic(file, name + "later protocol", (short) 3, "consumer", versioned(4, v3), versioned(4, given), versioned(9, bare), versioned(9, nothing));
        classic(file, name + "later protocol with more fields", (short) 3, "consumer", more(versioned(4, bare)), more(versioned(4, nothing)), more(v3), more(given));
        classic(file, name + "negative protocol version", (short) 3, "consumer", versioned(-1, v3), versioned(-1, given), versioned(-32768, bare), versioned(-2, nothing));
        classic(file, name + "damaged protocol", (short) 3, "consumer", cut(v3), cut(given), cut(bare), cut(nothing));
        classic(file, name + "other protocol type", (short) 3, "connect", v3, given, new byte[] {1, 2, 3}, new byte[0]);
        for (short version = 0; version <= 4; version++) {
            classic(file, "group_metadata v" + version + " range", version, "consumer", bare, given, v3, nothing);
        }
        GroupMetadataValue first = new GroupMetadataValue().setProtocolType("").setGeneration(0).setProtocol(null)
            .setLeader(null).setCurrentStateTimestamp(1_700_000_000_000L).setMembers(List.of());
        record(file, name + "first join", new GroupMetadataKey().setGroup(""), new ApiMessageAndVersion(first, (short) 3));
    }

    static void classic(String file, String name, short version, String type, byte[]... members) throws Exception {
        List<MemberMetadata> list = new ArrayList<>();
        for (int i = 0; i < members.length; i += 2) {
            MemberMetadata member = new MemberMetadata()
                .setMemberId("consumer-g-" + i + "-0b6e3f5e-8f0b-4a55-9a41-3a1f2d9c7e10").setClientId("consumer-g-" + i)
                .setClientHost("/127.0.0.1").setSessionTimeout(45_000)
                .setSubscription(members[i]).setAssignment(members[i + 1]);
            if (version >= 1) member.setRebalanceTimeout(300_000);
            if (version >= 3) member.setGroupInstanceId(i == 0 ? "instance-0" : null);
            list.add(member);
        }
        GroupMetadataValue value = new GroupMetadataValue().setProtocolType(type).setGeneration(5).setProtocol("range")
            .setLeader(list.get(0).memberId()).setMembers(list);
        if (version >= 2) value.setCurrentStateTimestamp(1_700_000_000_123L);
        record(file, name, new GroupMetadataKey().setGroup("g"), new ApiMessageAndVersion(value, version));
    }

    static byte[] versioned(int version, byte[] message) {
        byte[] copy = message.clone();
        ByteBuffer.wrap(copy).putShort((short) version);
        return copy;
    }

    static byte[] more(byte[] message) {
        byte[] longer = Arrays.copyOf(message, message.length + 3);
        longer[longer.length - 1] = 7;
        return longer;
    }

    static byte[] cut(byte[] message) {
        return Arrays.copyOf(message, message.length - 1);
    }

    static byte[] array(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    // ---- key 0 before values of key 1, as coordinators until 4.0 may have written; 4.2 refuses all but version 0

    static void legacyVersions() throws Exception {
        CoordinatorRecordType type = CoordinatorRecordType.OFFSET_COMMIT;
        Schema[] schemas = (Schema[]) type.newRecordValue().getClass().getField("SCHEMAS").get(null);
        byte[] key = serde.serializeKey(CoordinatorRecord.tombstone(filledKey(type, Profile.TYPICAL)));
        key[1] = 0;
        for (short version = 1; version <= 4; version++) {
            ApiMessage value = type.newRecordValue();
            fill(value, schemas[version], Profile.TYPICAL, 1);
            byte[] bytes = serde.serializeValue(CoordinatorRecord.record(filledKey(type, Profile.TYPICAL), new ApiMessageAndVersion(value, version)));
            block("records_offset_commit.txt", "legacy_offset_commit v" + version + " typical", key, bytes);
        }
    }

    // ---- the other topic, __share_group_state

    static void shareState() throws Exception {
        serde = new ShareCoordinatorRecordSerde();
        tool = parser("ShareGroupStateMessageParser");
        SEEDS.clear();
        for (var type : org.apache.kafka.coordinator.share.generated.CoordinatorRecordType.values()) {
            String name = type.name().toLowerCase();
            Schema schema = ((Schema[]) type.newRecordValue().getClass().getField("SCHEMAS").get(null))[0];
            for (Profile profile : Profile.values()) {
                ApiMessage key = type.newRecordKey();
                fill(key, ((Schema[]) key.getClass().getField("SCHEMAS").get(null))[0], profile, 0);
                ApiMessage filled = type.newRecordValue();
                fill(filled, schema, profile, 1);
                record("share_state.txt", name + " v0 " + profile.name().toLowerCase(), key, new ApiMessageAndVersion(filled, (short) 0));
                if (profile == Profile.TYPICAL) record("share_state.txt", name + " tombstone", key, null);
            }
        }
        hostile("share_state_hostile.txt");
    }

    // ---- damaged records

    static void hostile(String file) {
        Random random = new Random(20260211);
        for (int i = 0; i < 1000; i++) {
            byte[][] seed = SEEDS.get(random.nextInt(SEEDS.size()));
            boolean damageKey = random.nextInt(8) == 0;
            byte[] key = damageKey ? damaged(seed[0], random) : seed[0];
            byte[] value = damageKey || seed[1] == null ? seed[1] : damaged(seed[1], random);
            block(file, "hostile " + i, key, value);
        }
    }

    static byte[] damaged(byte[] bytes, Random random) {
        byte[] copy = bytes.clone();
        int at = random.nextInt(copy.length);
        switch (random.nextInt(5)) {
            case 0 -> copy[at] ^= (byte) (1 << random.nextInt(8));
            case 1 -> copy[at] = new byte[] {0, 1, -1, -2, 127, -128}[random.nextInt(6)];
            case 2 -> copy = Arrays.copyOf(copy, at);
            case 3 -> copy = Arrays.copyOf(copy, copy.length + 1 + random.nextInt(3));
            default -> {
                byte[] longer = new byte[copy.length + 1];
                System.arraycopy(copy, 0, longer, 0, at);
                longer[at] = (byte) random.nextInt(256);
                System.arraycopy(copy, at, longer, at + 1, copy.length - at);
                copy = longer;
            }
        }
        return copy;
    }

    // ---- output

    static void record(String file, String name, ApiMessage key, ApiMessageAndVersion value) {
        CoordinatorRecord record = value == null ? CoordinatorRecord.tombstone(key) : CoordinatorRecord.record(key, value);
        byte[] keyBytes = serde.serializeKey(record);
        byte[] valueBytes = serde.serializeValue(record);
        if (valueBytes == null || valueBytes.length < 400) SEEDS.add(new byte[][] {keyBytes, valueBytes});
        block(file, name, keyBytes, valueBytes);
    }

    /** One record as hex, and the two columns of the tool; no payload where it prints none (an error). */
    static void block(String file, String name, byte[] key, byte[] value) {
        MemoryRecords batch = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(0L, key, value));
        List<Optional<String>> printed = printed(batch.records().iterator().next());
        StringBuilder out = FILES.computeIfAbsent(file, GoldenRecords::header);
        out.append("name: ").append(name).append('\n');
        out.append("key: ").append(HEX.formatHex(key)).append('\n');
        out.append("value: ").append(value == null ? "null" : HEX.formatHex(value)).append('\n');
        out.append("tool_key: ").append(oneLine(printed.get(0).get())).append('\n');
        if (printed.get(1).isPresent()) out.append("tool_payload: ").append(oneLine(printed.get(1).get())).append('\n');
        out.append('\n');
    }

    /** The tool's parsers are its own: they are made, and asked, by reflection. */
    static Object parser(String name) {
        try {
            var made = Class.forName("org.apache.kafka.tools.DumpLogSegments$" + name).getDeclaredConstructor();
            made.setAccessible(true);
            return made.newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    @SuppressWarnings("unchecked")
    static List<Optional<String>> printed(Record record) {
        try {
            var parse = Class.forName("org.apache.kafka.tools.DumpLogSegments$MessageParser").getMethod("parse", Record.class);
            parse.setAccessible(true);
            Object result = parse.invoke(tool, record);
            var found = new ArrayList<Optional<String>>();
            for (Field field : result.getClass().getDeclaredFields()) {
                field.setAccessible(true);
                found.add((Optional<String>) field.get(result));
            }
            return found;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    static String oneLine(String text) {
        return text.replace('\n', ' ').replace('\r', ' ');
    }

    static StringBuilder header(String file) {
        if (file.startsWith("share_state")) {
            return new StringBuilder("# Made by tests/schemas/codec/java/GoldenRecords.java with the classes of Apache Kafka 4.4.0:\n"
                + "# bytes by ShareCoordinatorRecordSerde (kafka-share-coordinator-4.4.0.jar), text by the parser of\n"
                + "# DumpLogSegments --share-group-state-decoder (kafka-tools-4.4.0.jar). To make it again, as the others:\n"
                + "# java -cp '.jars/kafka-4.4/*' tests/schemas/codec/java/GoldenRecords.java tests/schemas/codec/golden\n\n");
        }
        return new StringBuilder("# Made by tests/schemas/codec/java/GoldenRecords.java with the classes of Apache Kafka 4.4.0:\n"
            + "# bytes by GroupCoordinatorRecordSerde (kafka-group-coordinator-4.4.0.jar), text by the parser of\n"
            + "# DumpLogSegments --offsets-decoder (kafka-tools-4.4.0.jar). To make it again, from the root of the tree:\n"
            + "# java -cp '.jars/kafka-4.4/*' tests/schemas/codec/java/GoldenRecords.java tests/schemas/codec/golden\n\n");
    }
}
