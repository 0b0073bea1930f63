// Writes one record in each transaction, to partition 0: for each number in its input, that many transactions. Whatever goes
// wrong, it aborts and tries again with the same producer, until it has committed or SECONDS are over. With PAUSE_MS - it
// commits at once; otherwise it waits for the answer about its record first, and pauses before it aborts if that is an error.
// For the word "abort", it aborts a transaction whose record is not sent yet: that takes a linger.ms of more than a second.
// java Transactions.java BOOTSTRAP TOPIC TRANSACTIONAL_ID PAUSE_MS SECONDS [KEY=VALUE ...]
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactions {
    private static int number = 0;

    public static void main(String[] args) throws InterruptedException {
        var properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("transactional.id", args[2]);
        for (int i = 5; i < args.length; i++) {
            var pair = args[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (var words = new Scanner(System.in); words.hasNext(); ) {
                if (words.hasNextInt()) {
                    commit(producer, args[1], args[3], number + words.nextInt(), Long.parseLong(args[4]));
                } else {
                    words.next();
                    abort(producer, args[1]);
                }
                System.out.println("done");
                System.out.flush();
            }
        }
    }

    private static void commit(KafkaProducer<String, String> producer, String topic, String pause, int last, long seconds)
            throws InterruptedException {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (number < last && System.nanoTime() < end) {
            var told = "transaction " + (number + 1);
            try {
                producer.beginTransaction();
                var answer = producer.send(new ProducerRecord<>(topic, 0, null, told));
                if (!pause.equals("-")) {
                    answer.get();
                }
                producer.commitTransaction();
                System.out.println(told + " committed");
                number++;
            } catch (ExecutionException e) {
                Thread.sleep(Long.parseLong(pause));
                producer.abortTransaction();
                System.out.println(told + " aborted: " + e.getCause());
            } catch (KafkaException e) {
                producer.abortTransaction();
                System.out.println(told + " aborted: " + e);
            }
        }
    }

    private static void abort(KafkaProducer<String, String> producer, String topic) throws InterruptedException {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "not sent"));
        Thread.sleep(1000);
        producer.abortTransaction();
        System.out.println("transaction " + ++number + " aborted by the application");
    }
}
