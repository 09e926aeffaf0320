package incmrql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.collection.immutable.Nil$;

/**
 * Puts other plans in place of the leaves of an analysed plan.
 *
 * The columns of a new plan get the ids of the leaf's columns, so that everything above finds them.
 */
public final class LeafSubstitution extends scala.runtime.AbstractPartialFunction {
    private List leaves;
    private List plans;

    public LeafSubstitution() {}

    /** The plan with new leaves, also in sub-queries; a plan that is null leaves its leaf alone. */
    public Object substitute(Object plan, List oldLeaves, List newPlans) {
        leaves = oldLeaves;
        plans = new ArrayList();
        for (int i = 0; i < oldLeaves.size(); i++) {
            Object found = newPlans.get(i);
            LogicalPlan leaf = (LogicalPlan) oldLeaves.get(i);
            plans.add(found == null ? leaf : withIds((LogicalPlan) found, leaf));
        }
        return ((LogicalPlan) plan).transformUpWithSubqueries(this);
    }

    private LogicalPlan withIds(LogicalPlan plan, LogicalPlan leaf) {
        List columns = new ArrayList();
        for (int i = 0; i < leaf.output().size(); i++) {
            Attribute old = (Attribute) leaf.output().apply(i);
            Attribute column = (Attribute) plan.output().apply(i);
            columns.add(new Alias(
                column, old.name(), old.exprId(), old.qualifier(),
                new scala.Some(old.metadata()), Nil$.MODULE$));
        }
        return new Project(
            org.apache.spark.api.python.PythonUtils.toSeq(columns), plan);
    }

    public boolean isDefinedAt(Object node) {
        return indexOf(node) >= 0;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        int index = indexOf(node);
        return index < 0 ? otherwise.apply(node) : plans.get(index);
    }

    private int indexOf(Object node) {
        for (int i = 0; i < leaves.size(); i++) {
            if (leaves.get(i) == node) {
                return i;
            }
        }
        return -1;
    }
}
