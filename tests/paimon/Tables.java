import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;

/**
 * Paimon's own readers and writers on tables of a warehouse: {@code java Tables.java WAREHOUSE DIVISOR TABLE...}.
 *
 * <p>For each table it prints the ids that Java reads, deletes those that the divisor divides, and prints the rest.
 */
public final class Tables {
    public static void main(String[] arguments) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(arguments[0])));
        int divisor = Integer.parseInt(arguments[1]);
        for (int at = 2; at < arguments.length; at++) {
            FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.fromString(arguments[at]));
            System.out.println(arguments[at] + " " + ids(table));
            delete(table, divisor);
            System.out.println(arguments[at] + " " + ids(table));
        }
        System.exit(0);
    }

    private static List<Long> ids(FileStoreTable table) throws Exception {
        List<Long> found = new ArrayList<>();
        ReadBuilder builder = table.newReadBuilder();
        for (Split split : builder.newScan().plan().splits()) {
            try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
                reader.forEachRemaining(row -> found.add(id(table, row)));
            }
        }
        Collections.sort(found);
        return found;
    }

    private static long id(FileStoreTable table, InternalRow row) {
        int at = table.rowType().getFieldIndex("id");
        boolean isInt = table.rowType().getTypeAt(at).asSQLString().startsWith("INT");
        return isInt ? row.getInt(at) : row.getLong(at);
    }

    private static void delete(FileStoreTable table, int divisor) throws Exception {
        boolean wide = table.coreOptions().deletionVectorBitmap64();
        ReadBuilder builder = table.newReadBuilder();
        List<CommitMessage> messages = new ArrayList<>();
        List<BinaryRow> partitions = new ArrayList<>();
        List<DataSplit> splits = new ArrayList<>();
        for (Split split : builder.newScan().plan().splits()) {
            splits.add((DataSplit) split);
            BinaryRow partition = ((DataSplit) split).partition();
            if (!partitions.contains(partition)) {
                partitions.add(partition.copy());
            }
        }
        for (BinaryRow partition : partitions) {
            AppendDeleteFileMaintainer maintainer =
                    BaseAppendDeleteFileMaintainer.forUnawareAppend(
                            table.store().newIndexFileHandler(),
                            table.snapshotManager().latestSnapshot(),
                            partition);
            for (DataSplit split : splits) {
                if (!split.partition().equals(partition)) {
                    continue;
                }
                for (DataFileMeta file : split.dataFiles()) {
                    DeletionVector vector =
                            wide ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
                    DataSplit alone =
                            DataSplit.builder()
                                    .withSnapshot(split.snapshotId())
                                    .withPartition(partition)
                                    .withBucket(split.bucket())
                                    .withBucketPath(split.bucketPath())
                                    .withDataFiles(List.of(file))
                                    .isStreaming(false)
                                    .rawConvertible(true)
                                    .build();
                    long[] position = {0};
                    try (RecordReader<InternalRow> reader = builder.newRead().createReader(alone)) {
                        reader.forEachRemaining(
                                row -> {
                                    if (id(table, row) % divisor == 0) {
                                        vector.delete(position[0]);
                                    }
                                    position[0]++;
                                });
                    }
                    if (!vector.isEmpty()) {
                        maintainer.notifyNewDeletionVector(file.fileName(), vector);
                    }
                }
            }
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> removed = new ArrayList<>();
            for (IndexManifestEntry entry : maintainer.persist()) {
                (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
            }
            DataIncrement increment = new DataIncrement(List.of(), List.of(), List.of(), added, removed);
            messages.add(
                    new CommitMessageImpl(
                            partition, maintainer.getBucket(), null, increment, CompactIncrement.emptyIncrement()));
        }
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
    }
}
