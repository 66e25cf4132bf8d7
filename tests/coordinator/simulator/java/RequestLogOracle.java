// Kafka's own JSON converters as the oracle of the request log. Reads the JSON of request log lines from standard
// input, and for each writes [request, response] as the converters of the API and version write what they have read.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ApiKeys;

public class RequestLogOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode body = mapper.readTree(line);
            JsonNode header = body.get("requestHeader");
            ApiKeys api = ApiKeys.forId(header.get("requestApiKey").asInt());
            short version = (short) header.get("requestApiVersion").asInt();
            if (!api.name().equals(header.get("requestApiKeyName").asText()) || !api.isVersionSupported(version)) {
                throw new IllegalArgumentException(header.toString());
            }
            ArrayNode answer = mapper.createArrayNode();
            answer.add(convert(api.messageType.name + "RequestData", body.get("request"), version));
            answer.add(convert(api.messageType.name + "ResponseData", body.get("response"), version));
            out.println(answer);
        }
        out.flush();
    }

    private static JsonNode convert(String name, JsonNode node, short version) throws Exception {
        Class<?> data = Class.forName("org.apache.kafka.common.message." + name);
        Class<?> converter = Class.forName(data.getName() + "JsonConverter");
        Object message = converter.getMethod("read", JsonNode.class, short.class).invoke(null, node, version);
        return (JsonNode) converter.getMethod("write", data, short.class).invoke(null, message, version);
    }
}
