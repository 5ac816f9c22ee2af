package org.apache.spark.shuffle.plasmon;

import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.IsolatedRpcEndpoint;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEnv;
import org.plasmon.shuffle.StoreException;
import scala.PartialFunction;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * What executors ask the driver. Messages are arrays, which every class loader knows. Each kind of
 * question has a thread of its own: one is answered after the other, and no other message of
 * Spark's waits.
 *
 * @param <M> the type of the messages
 */
abstract class DriverEndpoint<M> implements IsolatedRpcEndpoint {
    final SparkEnv env;

    DriverEndpoint(SparkEnv env) {
        this.env = env;
    }

    /** The message, or {@code null} for one that is not of this kind. */
    abstract M taken(Object message);

    /** What the executor is answered; an error fails its question. */
    abstract Object answer(M message) throws StoreException;

    /** What the driver does once the executor has its answer. */
    void answered(M message) {}

    @Override
    public final RpcEnv rpcEnv() {
        return env.rpcEnv();
    }

    @Override
    public final int threadCount() {
        return 1;
    }

    @Override
    public final PartialFunction<Object, BoxedUnit> receiveAndReply(RpcCallContext context) {
        return new AbstractPartialFunction<>() {
            @Override
            public boolean isDefinedAt(Object message) {
                return taken(message) != null;
            }

            @Override
            public BoxedUnit apply(Object message) {
                M ours = taken(message);
                try {
                    context.reply(answer(ours));
                } catch (StoreException | RuntimeException error) {
                    context.sendFailure(error);
                    return BoxedUnit.UNIT;
                }
                answered(ours);
                return BoxedUnit.UNIT;
            }
        };
    }
}
