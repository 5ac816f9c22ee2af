package org.apache.spark.shuffle.plasmon;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.junit.jupiter.api.Test;

/** A listing with a dead node kept all that the driver's listeners had to hear for seconds. */
class BackgroundTest {
    private final Background background = new Background("test");

    @Test
    void whatTakesLongIsNotWaitedForAndTheOrderStays() throws InterruptedException {
        CountDownLatch held = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(3);
        List<Integer> order = new ArrayList<>();
        background.run(() -> await(held));
        for (int number = 0; number < 3; number++) {
            int next = number;
            background.run(() -> {
                order.add(next);
                done.countDown();
            });
        }
        // All of this returned, although the first one has not ended.
        assertEquals(List.of(), order);
        held.countDown();
        assertTrue(done.await(60, TimeUnit.SECONDS));
        assertEquals(List.of(0, 1, 2), order);
    }

    @Test
    void oneThatFailsIsNotTheLast() throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        background.run(() -> {
            throw new IllegalStateException("a test of a failure; its trace may be printed");
        });
        background.run(done::countDown);
        assertTrue(done.await(60, TimeUnit.SECONDS));
    }

    @Test
    void afterTheStopNothingBegins() throws InterruptedException {
        CountDownLatch began = new CountDownLatch(1);
        CountDownLatch held = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        List<String> order = new ArrayList<>();
        background.run(() -> {
            began.countDown();
            await(held);
            ended.countDown();
        });
        assertTrue(began.await(60, TimeUnit.SECONDS));
        background.run(() -> order.add("waiting"));
        background.stop();
        background.run(() -> order.add("late"));
        held.countDown();
        assertTrue(ended.await(60, TimeUnit.SECONDS));
        assertTrue(background.isStopped());
        assertEquals(List.of(), order);
    }

    /** Also when it is interrupted. */
    private static void await(CountDownLatch latch) {
        boolean isOpen = false;
        while (!isOpen) {
            try {
                isOpen = latch.await(60, TimeUnit.SECONDS);
            } catch (InterruptedException toStop) {
                // It goes on, as a call of the native library would.
            }
        }
    }
}
