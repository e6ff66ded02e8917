// Prints what NetBeans' library, which VisualVM opens heap dumps with, finds in one.

import java.io.File;
import java.util.List;
import org.netbeans.lib.profiler.heap.*;

public class Look {
	public static void main(String[] args) throws Exception {
		Heap heap = HeapFactory.createHeap(new File(args[0]));
		System.out.println("objects " + heap.getSummary().getTotalLiveInstances());
		for (JavaClass c : (List<JavaClass>) heap.getAllClasses())
			if (c.getInstancesCount() > 0)
				System.out.println("class " + c.getInstancesCount() + " " + c.getName());
		for (GCRoot root : (java.util.Collection<GCRoot>) heap.getGCRoots())
			System.out.println("root " + root.getKind());
		Instance entry = (Instance) heap.getJavaClassByName("main.Entry").getInstances().get(0);
		for (FieldValue value : (List<FieldValue>) entry.getFieldValues())
			System.out.println("field " + value.getField().getType().getName() + " " + value.getField().getName());
		for (FieldValue value : (List<FieldValue>) heap.getJavaClassByName("globals").getStaticFieldValues())
			System.out.println("global " + value.getField().getName());
	}
}
