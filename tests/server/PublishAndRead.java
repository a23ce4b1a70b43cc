import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Publishes to a hub and reads back what it published, with the HTTP client of the JDK and its default settings.
 *
 * <p>Run it as {@code java PublishAndRead.java http://localhost:8080 test.orders}. It creates the event type, and ends
 * with an exception, hence a status other than 0, unless every count is right.
 */
class PublishAndRead {
    static final int BATCHES = 5;
    static final int EVENTS_PER_BATCH = 200;
    static final int PAGE_EVENTS = 64;
    static final Pattern COUNT = Pattern.compile("\"count\":\\s*(\\d+)");
    static final Pattern NUMBER = Pattern.compile("\"data\":\\s*\\{\"number\":\\s*(\\d+)");
    static final Pattern CURSOR = Pattern.compile("\"cursor\":\\s*\"([^\"]+)\"");

    final HttpClient client = HttpClient.newHttpClient();
    final String hub;
    final String eventType;

    PublishAndRead(String hub, String eventType) {
        this.hub = hub;
        this.eventType = eventType;
    }

    public static void main(String[] arguments) throws Exception {
        PublishAndRead program = new PublishAndRead(arguments[0], arguments[1]);
        program.create();
        for (int batch = 0; batch < BATCHES; batch++) {
            program.publish(batch * EVENTS_PER_BATCH);
        }
        program.read();
        System.out.println("published and read " + BATCHES * EVENTS_PER_BATCH + " events");
    }

    void create() throws Exception {
        String definition = """
            {"name": "%s", "owning_application": "java", "category": "undefined",
             "schema": {"type": "json_schema", "schema": "{}"}}""".formatted(eventType);
        send(post("/event-types", "application/json", definition), 201);
    }

    /** Publishes one batch of numbered events, and checks that the hub says it took them all. */
    void publish(int first) throws Exception {
        StringBuilder lines = new StringBuilder();
        for (int number = first; number < first + EVENTS_PER_BATCH; number++) {
            lines.append("{\"data\": {\"number\": ").append(number).append("}}\n");
        }
        String answer = send(post("/feeds/" + eventType, "application/x-ndjson", lines.toString()), 200);
        List<String> counts = all(COUNT, answer);
        require(counts.equals(List.of("" + EVENTS_PER_BATCH)), "published " + EVENTS_PER_BATCH + ", got " + answer);
    }

    /** Reads page after page until one has no events, and checks that each number came once and in order. */
    void read() throws Exception {
        List<String> numbers = new ArrayList<>();
        String cursor = "_first";
        while (true) {
            String query = "?n=1&cursor0=" + cursor + "&pagesizehint=" + PAGE_EVENTS;
            String page = send(request("/feeds/" + eventType + query).GET().build(), 200);
            List<String> found = all(NUMBER, page);
            if (found.isEmpty()) {
                break;
            }
            numbers.addAll(found);
            List<String> cursors = all(CURSOR, page);
            cursor = cursors.get(cursors.size() - 1);
        }
        int wanted = BATCHES * EVENTS_PER_BATCH;
        require(numbers.size() == wanted, "published " + wanted + " events, read " + numbers.size());
        for (int number = 0; number < wanted; number++) {
            require(numbers.get(number).equals("" + number), "read " + numbers.get(number) + " at place " + number);
        }
    }

    HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(hub + path));
    }

    HttpRequest post(String path, String contentType, String body) {
        return request(path).header("Content-Type", contentType).POST(BodyPublishers.ofString(body)).build();
    }

    String send(HttpRequest request, int status) throws Exception {
        HttpResponse<String> answer = client.send(request, BodyHandlers.ofString());
        require(answer.statusCode() == status,
            request + ": wanted status " + status + ", got " + answer.statusCode() + " " + answer.body());
        return answer.body();
    }

    static List<String> all(Pattern pattern, String text) {
        return pattern.matcher(text).results().map(found -> found.group(1)).toList();
    }

    static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }
}
