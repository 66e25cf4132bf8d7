import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors behind JSON lines: one case a line on stdin, its answer on stdout.
 *
 * A case with "members" is assigned by a new instance of "assignor", the subscriptions put into a HashMap in the
 * order of the list, as the leader does; the answer is {"assignment": {member: [[topic, partition], ...]}} or
 * {"error": class of the exception}. A case with "partitions" answers {"user_data": base64 or null}: what a member
 * sends after it was assigned those partitions in "generation".
 */
public final class AssignorOracle {
    private static final ObjectMapper JSON =
        new ObjectMapper(new JsonFactoryBuilder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build());

    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            JsonNode question = JSON.readTree(line);
            answers.println(JSON.writeValueAsString(question.has("members") ? assign(question) : userData(question)));
            answers.flush();
        }
    }

    private static ConsumerPartitionAssignor newAssignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static ObjectNode assign(JsonNode question) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : question.get("members"))
            subscriptions.put(member.get("member_id").textValue(), subscription(member));
        ConsumerPartitionAssignor assignor = newAssignor(question.get("assignor").textValue());
        ObjectNode answer = JSON.createObjectNode();
        try {
            Map<String, Assignment> assignments =
                assignor.assign(cluster(question.get("topics")), new GroupSubscription(subscriptions)).groupAssignment();
            ObjectNode byMember = answer.putObject("assignment");
            assignments.forEach((member, assignment) -> {
                ArrayNode partitions = byMember.putArray(member);
                assignment.partitions().forEach(p -> partitions.addArray().add(p.topic()).add(p.partition()));
            });
        } catch (RuntimeException e) {
            answer.removeAll();
            answer.put("error", e.getClass().getSimpleName());
        }
        return answer;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.textValue()));
        String userData = member.get("user_data").textValue();
        Subscription subscription = new Subscription(
            topics,
            userData == null ? null : ByteBuffer.wrap(Base64.getDecoder().decode(userData)),
            partitions(member.get("owned_partitions")),
            member.get("generation_id").intValue(),
            Optional.ofNullable(member.get("rack_id").textValue()));
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("group_instance_id").textValue()));
        return subscription;
    }

    private static List<TopicPartition> partitions(JsonNode list) {
        List<TopicPartition> partitions = new ArrayList<>();
        list.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).textValue(), pair.get(1).intValue())));
        return partitions;
    }

    /** Topics come as {topic: [[rack of each replica], ... one for each partition]}; a broker stands for each rack. */
    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> brokers = new TreeMap<>();
        Collection<PartitionInfo> partitions = new ArrayList<>();
        topics.properties().forEach(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                racks.forEach(rack -> replicas.add(brokers.computeIfAbsent(
                    rack.textValue(), name -> new Node(brokers.size(), "broker", 9092, name))));
                if (replicas.isEmpty())
                    replicas.add(Node.noNode());
                Node[] nodes = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, nodes[0], nodes, nodes));
            }
        });
        return new Cluster("oracle", brokers.values(), partitions, Set.of(), Collections.emptySet());
    }

    @SuppressWarnings("removal") // the only public way to name a generation
    private static ObjectNode userData(JsonNode question) {
        ConsumerPartitionAssignor assignor = newAssignor(question.get("assignor").textValue());
        int generation = question.get("generation").intValue();
        if (generation >= 0)
            assignor.onAssignment(
                new Assignment(partitions(question.get("partitions"))),
                new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        ByteBuffer userData = assignor.subscriptionUserData(Set.of());
        byte[] bytes = userData == null ? null : new byte[userData.remaining()];
        if (bytes != null)
            userData.get(bytes);
        return JSON.createObjectNode().put("user_data", bytes);
    }
}
