import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.CloseableIterable;

/**
 * Plans a scan of a table, whose metadata file is given, for each line of its input: `low high`, the ids of a filter, all
 * files if they are equal. Writes a line: data files, delete files, CPU seconds of the process, seconds.
 */
public class PlanFiles {
  public static void main(String[] args) throws Exception {
    HadoopFileIO io = new HadoopFileIO(new Configuration());
    OperatingSystemMXBean process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      long low = Long.parseLong(line.split(" ")[0]);
      long high = Long.parseLong(line.split(" ")[1]);
      long cpu = process.getProcessCpuTime();
      long start = System.nanoTime();
      TableScan scan = new BaseTable(new StaticTableOperations(args[0], io), "table").newScan();
      if (low < high) {
        scan = scan.filter(
            Expressions.and(Expressions.greaterThanOrEqual("id", low), Expressions.lessThan("id", high)));
      }
      long files = 0;
      long deletes = 0;
      try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
        for (FileScanTask task : tasks) {
          files++;
          deletes += task.deletes().size();
        }
      }
      double used = (process.getProcessCpuTime() - cpu) / 1e9;
      System.out.println(files + " " + deletes + " " + used + " " + (System.nanoTime() - start) / 1e9);
    }
  }
}
