#!/bin/bash
# What a container of the image runs. Spark's scheduler for Kubernetes starts its pods with the one word "driver" or
# "executor", and says the rest in SPARK_* variables; all else is a command.
set -euo pipefail

case "${1:-}" in
driver)
    shift
    exec "${SPARK_HOME}/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS}" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=${SPARK_DRIVER_BIND_ADDRESS}" "$@"
    ;;
executor)
    options=()
    while IFS='=' read -r -d '' name value; do
        [[ "${name}" == SPARK_JAVA_OPT_* ]] && options+=("${value}")
    done < <(env -0)
    exec java "${options[@]}" "-Xms${SPARK_EXECUTOR_MEMORY}" "-Xmx${SPARK_EXECUTOR_MEMORY}" \
        -cp "${SPARK_CLASSPATH:-}${SPARK_CLASSPATH:+:}${SPARK_HOME}/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "${SPARK_DRIVER_URL}" --executor-id "${SPARK_EXECUTOR_ID}" --cores "${SPARK_EXECUTOR_CORES}" \
        --app-id "${SPARK_APPLICATION_ID}" --hostname "${SPARK_EXECUTOR_POD_IP}" \
        --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}" --podName "${SPARK_EXECUTOR_POD_NAME}"
    ;;
*)
    exec "$@"
    ;;
esac
