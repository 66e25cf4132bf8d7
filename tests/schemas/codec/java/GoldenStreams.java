// Writes tests/codec/golden/streams_assignor.txt: the user data of classic Kafka Streams members, by Kafka
// Streams' own SubscriptionInfo. Its JAR is not among ours (a broker needs none), so give it besides:
//
//   java -cp '.jars/kafka/*:kafka-streams-4.2.0.jar' tests/codec/java/GoldenStreams.java tests/codec/golden

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;

public class GoldenStreams {
    static final UUID PROCESS = UUID.fromString("01234567-89ab-cdef-fedc-ba9876543210");

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder("# Made by tests/codec/java/GoldenStreams.java with SubscriptionInfo of kafka-streams-4.2.0.jar.\n"
            + "# To make it again, from the root of the tree, with that JAR at hand:\n"
            + "# java -cp '.jars/kafka/*:kafka-streams-4.2.0.jar' tests/codec/java/GoldenStreams.java tests/codec/golden\n\n");
        for (int version = 1; version <= 11; version++) {
            SubscriptionInfo info = new SubscriptionInfo(version, 11, new ProcessId(PROCESS), "host:9092",
                Map.of(new TaskId(0, 3), -2L), (byte) 1, 0, Map.of());
            ByteBuffer buffer = info.encode();
            SubscriptionInfo read = SubscriptionInfo.decode(buffer.duplicate());
            block(out, "v" + version, buffer, read.version(), read.latestSupportedVersion(),
                '"' + new Uuid(read.processId().id().getMostSignificantBits(), read.processId().id().getLeastSignificantBits()).toString() + '"');
        }
        ByteBuffer probe = ByteBuffer.allocate(30);
        probe.putInt(12).putInt(13).position(0);
        SubscriptionInfo read = SubscriptionInfo.decode(probe.duplicate());
        block(out, "v12 probe", probe, read.version(), read.latestSupportedVersion(), "null");
        Files.writeString(Path.of(args[0], "streams_assignor.txt"), out, StandardCharsets.UTF_8);
    }

    static void block(StringBuilder out, String name, ByteBuffer buffer, int version, int latest, String processId) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        out.append("name: streams ").append(name).append("\nkind: streams\nbytes: ").append(HexFormat.of().formatHex(bytes))
            .append("\nversion: ").append(version).append("\njson: {");
        if (version >= 3) out.append("\"latestSupportedVersion\":").append(latest);
        if (version >= 3 && !processId.equals("null")) out.append(',');
        if (!processId.equals("null")) out.append("\"processId\":").append(processId);
        out.append("}\n\n");
    }
}
