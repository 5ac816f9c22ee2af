package org.apache.spark.shuffle.plasmon;

import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;

import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.WebUIPage;
import org.plasmon.shuffle.NativeStore;
import org.plasmon.shuffle.RoomWaits;
import scala.collection.immutable.Nil$;
import scala.xml.Node;
import scala.xml.Unparsed;

/**
 * The tab of Spark's UI that shows what the shuffle takes in the store.
 *
 * <p>Spark 3.5 passes a request of {@code javax.servlet}, and 4.x one of {@code jakarta.servlet};
 * the one that is not there is never asked for, because neither method looks into its request.
 */
final class StorePage extends WebUIPage {
    /** Shuffles beyond this make a page that no one reads; the latest are shown. */
    private static final int SHUFFLES_MAX = 500;

    private final SparkUITab tab;
    private final String place;
    private final StoreFigures figures;
    private final RoomWaits waits;
    private final Supplier<List<FinishedShuffles.Written>> shuffles;

    private StorePage(
            SparkUITab tab,
            String place,
            StoreFigures figures,
            RoomWaits waits,
            Supplier<List<FinishedShuffles.Written>> shuffles) {
        super("");
        this.tab = tab;
        this.place = place;
        this.figures = figures;
        this.waits = waits;
        this.shuffles = shuffles;
    }

    /**
     * Adds the tab.
     *
     * @param place what to say of where the store is and how large it may become
     */
    static void attach(
            SparkUI ui,
            String place,
            StoreFigures figures,
            RoomWaits waits,
            Supplier<List<FinishedShuffles.Written>> shuffles) {
        SparkUITab tab = new SparkUITab(ui, "plasmon") { };
        tab.attachPage(new StorePage(tab, place, figures, waits, shuffles));
        ui.attachTab(tab);
    }

    /** Of Spark 3.5. */
    @Override
    public scala.collection.Seq<Node> render(javax.servlet.http.HttpServletRequest request) {
        return page(request);
    }

    /** Of Spark 4.x. */
    public scala.collection.immutable.Seq<Node> render(
            jakarta.servlet.http.HttpServletRequest request) {
        return page(request);
    }

    @SuppressWarnings("unchecked")
    private scala.collection.immutable.Seq<Node> page(Object request) {
        Object page = SparkShims.page(request, "Plasmon", nodes(content()), tab);
        return (scala.collection.immutable.Seq<Node>) page;
    }

    private static scala.collection.immutable.List<Node> nodes(String html) {
        Node node = new Unparsed(html);
        return Nil$.MODULE$.<Node>$colon$colon(node);
    }

    private String content() {
        StringBuilder html = new StringBuilder();
        html.append("<div id=\"plasmon-store\"><p>").append(escaped(place)).append("</p>");
        NativeStore.Figures now = figures.get();
        table(html, "In the store", "What");
        row(html, "Capacity", bytes(now.capacityBytes()));
        row(html, "In memory", bytes(now.usedBytes()), now.objects() + " objects");
        row(html, "In files", bytes(now.spilledBytes()), now.spilledObjects() + " objects");
        row(html, "Written to files so far", bytes(now.spillWrittenBytes()));
        row(html, "Brought back into memory so far", bytes(now.restoredBytes()));
        row(html, "Waits of the driver's process for room", String.valueOf(waits.count()),
                waits.totalMs() + " ms");
        html.append("</tbody></table>");
        table(html, "Written", "Shuffle");
        List<FinishedShuffles.Written> list = shuffles.get();
        for (int at = list.size() - 1; at >= Math.max(0, list.size() - SHUFFLES_MAX); at--) {
            FinishedShuffles.Written it = list.get(at);
            row(html, String.valueOf(it.shuffle()), bytes(it.bytes()), it.records() + " records, "
                    + (it.used() ? "in use" : "finished: the first to leave the memory"));
        }
        return html.append("</tbody></table></div>").toString();
    }

    private static void table(StringBuilder html, String values, String names) {
        html.append("<table class=\"table table-bordered table-sm table-striped\"><thead><tr><th>")
                .append(names).append("</th><th>").append(values)
                .append("</th><th></th></tr></thead><tbody>");
    }

    private static void row(StringBuilder html, String name, String... values) {
        html.append("<tr><td>").append(name).append("</td>");
        for (int at = 0; at < 2; at++) {
            html.append("<td>").append(at < values.length ? values[at] : "").append("</td>");
        }
        html.append("</tr>");
    }

    private static String bytes(long bytes) {
        return String.format(Locale.ROOT, "%.1f MiB", bytes / (double) (1 << 20));
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }
}
