// Keeps its position outside Kafka: begins at POSITION, which it read with leader epoch EPOCH (- none), if that is in the
// partition's range, and prints each record with its leader epoch:
// java Application.java BOOTSTRAP TOPIC POSITION EPOCH [KEY=VALUE ...]
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Application {
    public static void main(String[] args) {
        var properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        for (int i = 4; i < args.length; i++) {
            var pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            var partition = new TopicPartition(args[1], 0);
            long position = Long.parseLong(args[2]);
            Optional<Integer> epoch = args[3].equals("-") ? Optional.empty() : Optional.of(Integer.parseInt(args[3]));
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            if (position <= end) {
                consumer.seek(partition, new OffsetAndMetadata(position, epoch, ""));
            }
            while (true) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    var told = record.offset() + " " + record.leaderEpoch().get() + " " + record.value();
                    System.out.println("record " + told);
                }
                System.out.flush();
            }
        }
    }
}
