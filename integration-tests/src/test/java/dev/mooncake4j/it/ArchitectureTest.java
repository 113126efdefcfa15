package dev.mooncake4j.it;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaCodeUnit;
import com.tngtech.archunit.core.domain.JavaField;
import com.tngtech.archunit.core.domain.JavaMember;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.domain.JavaType;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Which way dependencies point, and whose types may be seen where. */
class ArchitectureTest {
  private static final String API = "dev.mooncake4j.connector..";
  private static final String CORE = "dev.mooncake4j.core..";
  private static final String ENGINE = "dev.mooncake4j.engine..";
  private static final String BOOTSTRAP = "dev.mooncake4j.bootstrap..";
  private static final String METRICS = "dev.mooncake4j.metrics..";
  private static final String JAVA = "java..";
  private static final String NULLNESS = "org.jspecify.annotations..";

  private static final List<String> HIDDEN =
      List.of(
          "io.netty.",
          "org.zeromq.",
          "zmq.",
          "io.micrometer.",
          "tools.jackson.",
          "com.fasterxml.",
          "org.slf4j.");

  private static JavaClasses all;

  @BeforeAll
  static void read() {
    all =
        new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages("dev.mooncake4j");
  }

  /** A rule over no classes holds; this says that there are some. */
  @Test
  void everyModuleIsLookedAt() {
    for (String module : List.of("connector", "core", "engine", "bootstrap", "metrics")) {
      assertThat(
              all.stream()
                  .filter(c -> c.getPackageName().startsWith("dev.mooncake4j." + module))
                  .count())
          .as("classes of dev.mooncake4j.%s", module)
          .isGreaterThan(3);
    }
  }

  @Test
  void theApiDependsOnNothingElse() {
    classes()
        .that()
        .resideInAPackage(API)
        .should()
        .onlyDependOnClassesThat()
        .resideInAnyPackage(API, JAVA, NULLNESS)
        .check(all);
  }

  @Test
  void modulesBesideTheCoreKnowTheApiAlone() {
    noClasses()
        .that()
        .resideInAPackage(ENGINE)
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(CORE, BOOTSTRAP, METRICS)
        .check(all);
    noClasses()
        .that()
        .resideInAPackage(METRICS)
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(CORE, BOOTSTRAP, ENGINE)
        .check(all);
    noClasses()
        .that()
        .resideInAPackage(BOOTSTRAP)
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(CORE, ENGINE, METRICS)
        .check(all);
  }

  @Test
  void theCoreKnowsNeitherTheEngineNorTheMetrics() {
    noClasses()
        .that()
        .resideInAPackage(CORE)
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(ENGINE, METRICS, "dev.mooncake4j.testkit..")
        .check(all);
  }

  @Test
  void nobodyKnowsTheCore() {
    noClasses()
        .that()
        .resideOutsideOfPackage(CORE)
        .should()
        .dependOnClassesThat()
        .resideInAPackage(CORE)
        .check(all);
  }

  @Test
  void librariesStayInTheirRooms() {
    only("org.zeromq..", "dev.mooncake4j.core.channel..");
    only("zmq..", "dev.mooncake4j.core.channel..");
    only("io.netty..", BOOTSTRAP, "dev.mooncake4j.examples.proxy..");
    only("io.micrometer..", METRICS, "dev.mooncake4j.examples..");
    only(
        "tools.jackson..",
        "dev.mooncake4j.core.config..",
        BOOTSTRAP,
        "dev.mooncake4j.examples..",
        "dev.mooncake4j.it..");
    only("dev.mooncake4j.engine.ffi..", ENGINE);
  }

  private static void only(String library, String... rooms) {
    noClasses()
        .that()
        .resideOutsideOfPackages(rooms)
        .should()
        .dependOnClassesThat()
        .resideInAPackage(library)
        .check(all);
  }

  @Test
  void planningWiringFormatAndSchedulingArePure() {
    classes()
        .that()
        .resideInAPackage("dev.mooncake4j.core.plan..")
        .should()
        .onlyDependOnClassesThat()
        .resideInAnyPackage("dev.mooncake4j.core.plan..", API, JAVA, NULLNESS)
        .check(all);
    classes()
        .that()
        .resideInAPackage("dev.mooncake4j.core.wire..")
        .should()
        .onlyDependOnClassesThat()
        .resideInAnyPackage("dev.mooncake4j.core.wire..", API, JAVA, NULLNESS)
        .check(all);
    classes()
        .that()
        .resideInAPackage("dev.mooncake4j.core.scheduler..")
        .should()
        .onlyDependOnClassesThat()
        .resideInAnyPackage(
            "dev.mooncake4j.core.scheduler..",
            API,
            "java.lang..",
            "java.util..",
            NULLNESS,
            "org.slf4j..")
        .check(all);
  }

  @Test
  void packagesOfTheCoreHaveNoCycles() {
    slices().matching("dev.mooncake4j.core.(*)..").should().beFreeOfCycles().check(all);
  }

  @Test
  void typesOfLibrariesAreNotSeenInPublicSignatures() {
    classes()
        .that()
        .resideInAnyPackage(API, CORE)
        .and()
        .arePublic()
        .should(new ShowsNoLibraryTypes())
        .check(all);
  }

  /** Looks at the supertypes and at what public and protected members name, type arguments too. */
  private static final class ShowsNoLibraryTypes extends ArchCondition<JavaClass> {
    ShowsNoLibraryTypes() {
      super("show no library's types");
    }

    @Override
    public void check(JavaClass shown, ConditionEvents events) {
      List<JavaType> supertypes = new ArrayList<>(shown.getInterfaces());
      shown.getSuperclass().ifPresent(supertypes::add);
      report(shown, shown.getName(), supertypes, events);
      for (JavaField field : shown.getFields()) {
        if (isShown(field)) {
          report(shown, field.getFullName(), List.of(field.getType()), events);
        }
      }
      for (JavaCodeUnit unit : shown.getCodeUnits()) {
        if (isShown(unit)) {
          List<JavaType> types = new ArrayList<>(unit.getParameterTypes());
          types.add(unit.getReturnType());
          types.addAll(unit.getExceptionTypes());
          report(shown, unit.getFullName(), types, events);
        }
      }
    }

    private static boolean isShown(JavaMember member) {
      return member.getModifiers().contains(JavaModifier.PUBLIC)
          || member.getModifiers().contains(JavaModifier.PROTECTED);
    }

    private static void report(
        JavaClass shown, String where, List<JavaType> types, ConditionEvents events) {
      for (JavaType type : types) {
        for (JavaClass raw : type.getAllInvolvedRawTypes()) {
          if (HIDDEN.stream().anyMatch(raw.getName()::startsWith)) {
            events.add(SimpleConditionEvent.violated(shown, where + " shows " + raw.getName()));
          }
        }
      }
    }
  }
}
