// Reads partitions of a topic that it is assigned to, and prints each record with its partition:
// java Consumer.java BOOTSTRAP TOPIC PARTITIONS [KEY=VALUE ...]
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Consumer {
    public static void main(String[] args) {
        var properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        for (int i = 3; i < args.length; i++) {
            var pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> assigned =
                IntStream.range(0, Integer.parseInt(args[2])).mapToObj(i -> new TopicPartition(args[1], i)).toList();
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            while (true) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    System.out.println(record.partition() + " " + record.offset() + " " + record.value());
                }
                System.out.flush();
            }
        }
    }
}
