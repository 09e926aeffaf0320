package incmrql;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.Product;

/**
 * Writes an analysed plan as JSON, in the form that incmrql.catalyst.nodes reads.
 *
 * Janino compiles this class in the driver's JVM. Janino knows no lambdas and no inferred generics,
 * so there are none. incmrql/spark/plans/generic.py does the same over py4j; a test compares them.
 */
public final class PlanWalker {
    private static final String[] COMMANDS = {
        "CommandResult", "ExecuteImmediate", "CompoundBody", "SingleStatement"
    };

    private StringBuilder out = new StringBuilder();
    private Object root;
    private List rules = new ArrayList();
    private final Map specsByName = new HashMap();
    private final List interfaces = new ArrayList();
    private final List interfaceSpecs = new ArrayList();
    private final Map expressionNumbers = new HashMap();
    private final Map tableNumbers = new HashMap();
    private final List leaves = new ArrayList();
    private final StringBuilder texts = new StringBuilder();
    private final Map textStarts = new HashMap();

    public PlanWalker() {}

    /** Tells which rules normalise a plan, and which fields of which classes to read. */
    public void prepare(Object ruleList, String fields, String text) throws Exception {
        rules = (List) ruleList;
        if (text.length() > 0) {
            addText(text);
        }
        String[] lines = fields.split("\n");
        for (int i = 0; i < lines.length; i++) {
            String[] words = lines[i].split(" ");
            List spec = new ArrayList();
            for (int j = 1; j < words.length; j++) {
                spec.add(words[j]);
            }
            if (words[0].indexOf('.') < 0) {
                specsByName.put(words[0], spec);
            } else {
                interfaces.add(Class.forName(words[0], false, Expression.class.getClassLoader()));
                interfaceSpecs.add(spec);
            }
        }
    }

    /** A plan or data type as JSON; the leaves and texts are known afterwards. */
    public String json(Object value) throws Exception {
        root = value instanceof LogicalPlan ? normalize((LogicalPlan) value) : value;
        write(root);
        return out.toString();
    }

    /** The class of the first operator that runs something; null in a query. */
    public String command(Object plan) {
        LogicalPlan operator = (LogicalPlan) plan;
        String name = simpleName(operator);
        if (operator instanceof Command || operator instanceof ParsedStatement) {
            return name;
        }
        for (int i = 0; i < COMMANDS.length; i++) {
            if (name.indexOf(COMMANDS[i]) >= 0) {
                return name;
            }
        }
        scala.collection.Iterator children = operator.children().iterator();
        while (children.hasNext()) {
            String inner = command(children.next());
            if (inner != null) {
                return inner;
            }
        }
        return null;
    }

    /** The plan as it was written: normalised. */
    public Object root() {
        return root;
    }

    /** The leaves of the plan, by the numbers in their field "$leaf". */
    public List leaves() {
        return leaves;
    }

    /** The texts that places point into, one after the other. */
    public String texts() {
        return texts.toString();
    }

    private void addText(String text) {
        if (texts.length() > 0) {
            texts.append('\n');
        }
        int lines = texts.toString().split("\n", -1).length - 1;
        textStarts.put(text, new int[] {lines, texts.codePointCount(0, texts.length())});
        texts.append(text);
    }

    private LogicalPlan normalize(LogicalPlan plan) {
        LogicalPlan before = null;
        LogicalPlan after = plan;
        for (int round = 0; round < 20 && after != before; round++) {
            before = after;
            for (int i = 0; i < rules.size(); i++) {
                after = (LogicalPlan) ((Rule) rules.get(i)).apply(after);
            }
        }
        return after;
    }

    // --- values ---

    private void write(Object value) throws Exception {
        if (value == null) {
            out.append("null");
        } else if (value instanceof Boolean || value instanceof Integer || value instanceof Long
                || value instanceof Short || value instanceof Byte
                || value instanceof java.math.BigInteger || value instanceof scala.math.BigInt) {
            out.append(value.toString());
        } else if (value instanceof Float || value instanceof Double) {
            writeDouble(((Number) value).doubleValue());
        } else if (value instanceof String || value instanceof Character
                || value instanceof UTF8String || value instanceof java.net.URI
                || value instanceof Path) {
            writeText(value.toString());
        } else if (value instanceof byte[]) {
            writeBinary((byte[]) value);
        } else if (value instanceof Decimal) {
            writeTagged("$decimal", ((Decimal) value).toJavaBigDecimal().toString());
        } else if (value instanceof java.math.BigDecimal || value instanceof scala.math.BigDecimal) {
            writeTagged("$decimal", value.toString());
        } else if (value instanceof scala.Enumeration.Value) {
            writeText(value.toString());
        } else if (value instanceof Enum) {
            writeText(((Enum) value).name());
        } else if (value instanceof Class) {
            writeText(((Class) value).getName());
        } else if (value instanceof ExprId) {
            ExprId id = (ExprId) value;
            out.append(number(expressionNumbers, id.id() + " " + id.jvmId()));
        } else if (value instanceof Metadata) {
            writeText(metadata((Metadata) value).json());
        } else if (value instanceof Option) {
            write(((Option) value).isDefined() ? ((Option) value).get() : null);
        } else if (value instanceof DataType || value instanceof TreeNode) {
            writeObject(value);
        } else if (value.getClass().getName().startsWith("scala.Tuple")) {
            writeAll(javaIterator(((Product) value).productIterator()), false);
        } else {
            writeCollection(value);
        }
    }

    /** Without the number of the Dataset that a column was taken from: it differs from run to run. */
    private Metadata metadata(Metadata all) {
        MetadataBuilder builder = new MetadataBuilder().withMetadata(all);
        return builder.remove("__dataset_id").remove("__col_position").build();
    }

    private void writeCollection(Object value) throws Exception {
        if (value instanceof scala.collection.immutable.ArraySeq.ofByte) {
            writeBinary((byte[]) ((scala.collection.immutable.ArraySeq.ofByte) value).unsafeArray());
        } else if (value instanceof scala.collection.Map) {
            Map pairs = new TreeMap();
            scala.collection.Iterator each = ((scala.collection.Map) value).iterator();
            while (each.hasNext()) {
                Product pair = (Product) each.next();
                pairs.put(pair.productElement(0).toString(), pair.productElement(1));
            }
            writePairs(pairs);
        } else if (value instanceof Map) {
            writePairs(new TreeMap((Map) value));
        } else if (value instanceof scala.collection.Iterable) {
            Iterator items = javaIterator(((scala.collection.Iterable) value).iterator());
            writeAll(items, value instanceof scala.collection.Set);
        } else if (value instanceof Iterable) {
            writeAll(((Iterable) value).iterator(), value instanceof java.util.Set);
        } else if (value instanceof Object[]) {
            writeAll(java.util.Arrays.asList((Object[]) value).iterator(), false);
        } else {
            writeObject(value);
        }
    }

    private Iterator javaIterator(scala.collection.Iterator items) {
        List all = new ArrayList();
        while (items.hasNext()) {
            all.add(items.next());
        }
        return all.iterator();
    }

    /** A list; the elements of a set are sorted by their text. */
    private void writeAll(Iterator items, boolean sorted) throws Exception {
        if (sorted) {
            items = sortedByText(items);
        }
        out.append('[');
        String separator = "";
        while (items.hasNext()) {
            out.append(separator);
            write(items.next());
            separator = ",";
        }
        out.append(']');
    }

    private Iterator sortedByText(Iterator items) {
        Map byText = new TreeMap();
        while (items.hasNext()) {
            Object item = items.next();
            byText.put(item.toString(), item);
        }
        return byText.values().iterator();
    }

    private void writePairs(Map pairs) throws Exception {
        out.append('[');
        Iterator keys = pairs.keySet().iterator();
        String separator = "";
        while (keys.hasNext()) {
            Object key = keys.next();
            out.append(separator).append('[');
            write(key);
            out.append(',');
            write(pairs.get(key));
            out.append(']');
            separator = ",";
        }
        out.append(']');
    }

    /** A value inside of Spark's rows, which do not know their types. */
    private void writeTyped(Object value, DataType type) throws Exception {
        if (type instanceof UserDefinedType) {
            writeTyped(value, ((UserDefinedType) type).sqlType());
        } else if (value instanceof ArrayData) {
            writeElements((ArrayData) value, ((ArrayType) type).elementType());
        } else if (value instanceof MapData) {
            MapData map = (MapData) value;
            out.append('[');
            for (int i = 0; i < map.numElements(); i++) {
                DataType keyType = ((MapType) type).keyType();
                DataType valueType = ((MapType) type).valueType();
                out.append(i == 0 ? "[" : ",[");
                writeTyped(map.keyArray().get(i, keyType), keyType);
                out.append(',');
                ArrayData values = map.valueArray();
                writeTyped(values.isNullAt(i) ? null : values.get(i, valueType), valueType);
                out.append(']');
            }
            out.append(']');
        } else if (value instanceof InternalRow) {
            InternalRow row = (InternalRow) value;
            StructType struct = (StructType) type;
            out.append('[');
            for (int i = 0; i < struct.fields().length; i++) {
                out.append(i == 0 ? "" : ",");
                DataType part = struct.fields()[i].dataType();
                writeTyped(row.isNullAt(i) ? null : row.get(i, part), part);
            }
            out.append(']');
        } else {
            write(value);
        }
    }

    private void writeElements(ArrayData array, DataType type) throws Exception {
        out.append('[');
        for (int i = 0; i < array.numElements(); i++) {
            out.append(i == 0 ? "" : ",");
            writeTyped(array.isNullAt(i) ? null : array.get(i, type), type);
        }
        out.append(']');
    }

    private void writeRows(scala.collection.Iterable rows, StructType schema) throws Exception {
        out.append('[');
        scala.collection.Iterator each = rows.iterator();
        String separator = "";
        while (each.hasNext()) {
            out.append(separator);
            writeTyped(each.next(), schema);
            separator = ",";
        }
        out.append(']');
    }

    // --- objects ---

    private void writeObject(Object object) throws Exception {
        String name = simpleName(object);
        List spec = (List) specsByName.get(name);
        boolean byInterface = false;
        if (spec == null && !(object instanceof TreeNode)) {
            for (int i = 0; i < interfaces.size() && spec == null; i++) {
                if (((Class) interfaces.get(i)).isInstance(object)) {
                    spec = (List) interfaceSpecs.get(i);
                    byInterface = true;
                }
            }
        }
        if (spec == null) {
            spec = new ArrayList();
        }
        out.append("{\"class\":");
        writeText(name);
        if (object instanceof TreeNode) {
            writePlace(((TreeNode) object).origin());
        }
        out.append(",\"fields\":{");
        int start = out.length();
        if (object instanceof CalendarInterval) {
            CalendarInterval interval = (CalendarInterval) object;
            writeField(start, "months", Integer.valueOf(interval.months));
            writeField(start, "days", Integer.valueOf(interval.days));
            writeField(start, "microseconds", Long.valueOf(interval.microseconds));
        } else if (object instanceof DataType) {
            writeTypeFields(start, (DataType) object);
        } else if (byInterface || isOpaque(object)) {
            writeField(start, "$java", object.getClass().getName());
        } else if (object instanceof Product && !hasOnly(spec)) {
            writeProduct(start, name, (Product) object, spec);
        }
        for (int i = 0; i < spec.size(); i++) {
            String word = (String) spec.get(i);
            if (word.charAt(0) == '=' || word.charAt(0) == '+') {
                String accessor = word.substring(1);
                writeField(start, accessor, call(object, accessor));
            }
        }
        if (spec.isEmpty() && (object instanceof LogicalPlan || object instanceof Expression)) {
            Object second = ((TreeNode) object).otherCopyArgs();
            if (!((scala.collection.Seq) second).isEmpty()) {
                writeField(start, "$second", second);
            }
        }
        if (object instanceof Expression) {
            writeType(start, (Expression) object);
        } else if (object instanceof LogicalPlan && ((LogicalPlan) object).children().isEmpty()) {
            leaves.add(object);
            writeField(start, "$leaf", Integer.valueOf(leaves.size()));
        }
        out.append("}}");
    }

    private boolean hasOnly(List spec) {
        return spec.size() > 0 && ((String) spec.get(0)).charAt(0) == '=';
    }

    /** Whether an object is not a plan, an expression or a case class of Catalyst. */
    private boolean isOpaque(Object object) {
        if (object instanceof LogicalPlan || object instanceof Expression) {
            return false;
        }
        if (specsByName.containsKey(simpleName(object))) {
            return false;
        }
        String full = object.getClass().getName();
        boolean known = full.startsWith("org.apache.spark.sql.") || full.startsWith("scala.");
        boolean isPhysical = object instanceof TreeNode;
        return isPhysical || !known || !(object instanceof Product);
    }

    private void writeTypeFields(int start, DataType type) throws Exception {
        if (type instanceof UserDefinedType) {
            writeField(start, "$java", type.getClass().getName());
            writeField(start, "sqlType", ((UserDefinedType) type).sqlType());
        } else if (type instanceof Product) {
            writeProduct(start, simpleName(type), (Product) type, new ArrayList());
        } else {
            writeField(start, "typeName", type.typeName());
        }
    }

    private void writeProduct(int start, String className, Product product, List spec)
            throws Exception {
        for (int i = 0; i < product.productArity(); i++) {
            String name = product.productElementName(i);
            Object value = product.productElement(i);
            if (spec.contains("-" + name)) {
                continue;
            }
            if (spec.contains("#" + name)) {
                value = Integer.valueOf(number(tableNumbers, value.toString()));
            }
            if (className.equals("Literal") && name.equals("value")) {
                writeName(start, name);
                writeTyped(value, ((Expression) product).dataType());
            } else if (className.equals("LocalRelation") && name.equals("data")) {
                writeName(start, name);
                writeRows((scala.collection.Iterable) value, ((LogicalPlan) product).schema());
            } else if (product instanceof Expression && value instanceof LogicalPlan) {
                writeField(start, name, normalize((LogicalPlan) value));
            } else {
                writeField(start, name, value);
            }
        }
    }

    private void writeType(int start, Expression expression) throws Exception {
        DataType type = null;
        try {
            type = expression.dataType();
        } catch (Exception withoutType) {
            // Frames of windows and a few other expressions have no type.
            type = null;
        }
        if (type != null) {
            writeField(start, "$type", type);
        }
    }

    private Object call(Object object, String accessor) throws Exception {
        Method method = object.getClass().getMethod(accessor, new Class[0]);
        method.setAccessible(true);
        return method.invoke(object, new Object[0]);
    }

    private void writeField(int start, String name, Object value) throws Exception {
        writeName(start, name);
        write(value);
    }

    private void writeName(int start, String name) {
        if (out.length() > start) {
            out.append(',');
        }
        writeText(name);
        out.append(':');
    }

    /** The line, start and end in the texts that were met so far, one after the other. */
    private void writePlace(Origin origin) {
        if (origin.sqlText().isEmpty() || origin.startIndex().isEmpty()
                || origin.stopIndex().isEmpty() || origin.line().isEmpty()) {
            return;
        }
        String text = (String) origin.sqlText().get();
        if (!textStarts.containsKey(text)) {
            addText(text);
        }
        int[] start = (int[]) textStarts.get(text);
        int line = ((Integer) origin.line().get()).intValue();
        int first = ((Integer) origin.startIndex().get()).intValue();
        int last = ((Integer) origin.stopIndex().get()).intValue();
        out.append(",\"place\":[").append(line + start[0]).append(',').append(first + start[1]);
        out.append(',').append(last + 1 + start[1]).append(']');
    }

    private int number(Map numbers, String id) {
        Integer number = (Integer) numbers.get(id);
        if (number == null) {
            number = Integer.valueOf(numbers.size() + 1);
            numbers.put(id, number);
        }
        return number.intValue();
    }

    private static String simpleName(Object object) {
        String name = object.getClass().getName();
        name = name.substring(name.lastIndexOf('.') + 1);
        while (name.endsWith("$")) {
            name = name.substring(0, name.length() - 1);
        }
        return name.substring(name.lastIndexOf('$') + 1);
    }

    // --- JSON ---

    private void writeDouble(double value) {
        if (value != value) {
            writeTagged("$double", "nan");
        } else if (value == Double.POSITIVE_INFINITY || value == Double.NEGATIVE_INFINITY) {
            writeTagged("$double", value > 0 ? "inf" : "-inf");
        } else {
            out.append(Double.toString(value));
        }
    }

    private void writeBinary(byte[] value) {
        writeTagged("$binary", Base64.getEncoder().encodeToString(value));
    }

    private void writeTagged(String tag, String text) {
        out.append("{\"").append(tag).append("\":");
        writeText(text);
        out.append('}');
    }

    private void writeText(String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 32 || Character.isSurrogate(c)) {
                out.append("\\u");
                String digits = Integer.toHexString(c);
                out.append("0000".substring(digits.length())).append(digits);
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
