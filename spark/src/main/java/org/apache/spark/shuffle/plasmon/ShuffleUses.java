package org.apache.spark.shuffle.plasmon;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Which shuffles are in use: those that a running job writes or may read, and those of a running
 * SQL query, which runs a job for each of its stages. A shuffle that was used and is not any more
 * is finished, until another job names it. For one thread.
 */
final class ShuffleUses {
    /** A user of shuffles: a job, or a query. */
    private record User(boolean isQuery, long number) {}

    private final Map<User, Set<Integer>> shufflesOf = new HashMap<>();
    private final Map<Integer, Set<User>> usersOf = new HashMap<>();

    /**
     * A job starts that may use these shuffles.
     *
     * @param query the number of the query that it is a part of, else null
     */
    void jobStarted(int job, Long query, Collection<Integer> shuffles) {
        use(new User(false, job), shuffles);
        if (query != null) {
            use(new User(true, query), shuffles);
        }
    }

    /** A job has ended; which shuffles are finished now. */
    List<Integer> jobEnded(int job) {
        return ended(new User(false, job));
    }

    /** A query has ended; which shuffles are finished now. */
    List<Integer> queryEnded(long query) {
        return ended(new User(true, query));
    }

    /** A shuffle is gone. */
    void forget(int shuffle) {
        Set<User> users = usersOf.remove(shuffle);
        if (users != null) {
            users.forEach(user -> shufflesOf.computeIfPresent(user, (it, shuffles) -> {
                shuffles.remove(shuffle);
                return shuffles.isEmpty() ? null : shuffles;
            }));
        }
    }

    boolean isUsed(int shuffle) {
        return usersOf.containsKey(shuffle);
    }

    private void use(User user, Collection<Integer> shuffles) {
        shufflesOf.computeIfAbsent(user, it -> new HashSet<>()).addAll(shuffles);
        for (int shuffle : shuffles) {
            usersOf.computeIfAbsent(shuffle, it -> new HashSet<>()).add(user);
        }
    }

    private List<Integer> ended(User user) {
        List<Integer> finished = new ArrayList<>();
        Set<Integer> shuffles = shufflesOf.remove(user);
        if (shuffles == null) {
            return finished;
        }
        for (int shuffle : shuffles) {
            Set<User> users = usersOf.get(shuffle);
            users.remove(user);
            if (users.isEmpty()) {
                usersOf.remove(shuffle);
                finished.add(shuffle);
            }
        }
        return finished;
    }
}
