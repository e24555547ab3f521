import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

/** Threads, direct buffers, zlib (malloc inside the virtual machine), and a child process. */
public class Work {
    static long compress(int seed) throws Exception {
        byte[] in = new byte[200000];
        new Random(seed).nextBytes(in);
        for (int i = 0; i < in.length; i += 3) in[i] = 0;
        long sum = 0;
        for (int i = 0; i < 20; i++) {
            Deflater d = new Deflater(i % 9 + 1);
            d.setInput(in);
            d.finish();
            byte[] out = new byte[in.length * 2];
            sum += d.deflate(out);
            d.end();
        }
        return sum;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> all = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            int seed = i;
            all.add(pool.submit(() -> compress(seed)));
        }
        long total = 0;
        for (Future<Long> f : all) total += f.get();
        pool.shutdown();
        long bytes = 0;
        for (int i = 0; i < 2000; i++) {
            ByteBuffer b = ByteBuffer.allocateDirect(i * 17 + 1);
            b.put(0, (byte) i);
            bytes += b.capacity() + b.get(0);
        }
        Process p = new ProcessBuilder("echo", "child").start();
        System.out.println(total + " " + bytes + " " + new String(p.getInputStream().readAllBytes()).trim() + p.waitFor());
    }
}
