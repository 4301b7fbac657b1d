// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// defaultBuiltIn sets those defaults of built-in kinds that controllers notice: client-go has none of them. found is what the object
// replaces, or nil.
func defaultBuiltIn(o any, found *Object) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		defaultDeployment(&o.Spec)
	case *appsv1.ReplicaSet:
		point(&o.Spec.Replicas, 1)
		defaultPod(&o.Spec.Template.Spec)
	case *corev1.ReplicationController:
		point(&o.Spec.Replicas, 1)
		if o.Spec.Template != nil {
			defaultPod(&o.Spec.Template.Spec)
		}
	case *appsv1.StatefulSet:
		defaultStatefulSet(&o.Spec)
	case *appsv1.DaemonSet:
		defaultDaemonSet(o, found)
	case *batchv1.Job:
		defaultJob(&o.Spec)
	case *batchv1.CronJob:
		fill(&o.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		point(&o.Spec.Suspend, false)
		point(&o.Spec.SuccessfulJobsHistoryLimit, 3)
		point(&o.Spec.FailedJobsHistoryLimit, 1)
		defaultPod(&o.Spec.JobTemplate.Spec.Template.Spec)
	case *corev1.Pod:
		defaultPod(&o.Spec)
		point(&o.Spec.EnableServiceLinks, true)
		for i := range o.Spec.Containers {
			defaultRequests(&o.Spec.Containers[i].Resources)
		}
	default:
		defaultOther(o)
	}
}

// defaultOther sets the defaults of kinds that are no workloads.
func defaultOther(o any) {
	switch o := o.(type) {
	case *corev1.Service:
		defaultService(&o.Spec)
	case *corev1.Namespace:
		fill(&o.Status.Phase, corev1.NamespaceActive)
	case *corev1.Secret:
		defaultSecret(o)
	case *corev1.PersistentVolumeClaim:
		point(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *autoscalingv2.HorizontalPodAutoscaler:
		defaultAutoscaler(&o.Spec)
	case *networkingv1.NetworkPolicy:
		defaultNetworkPolicy(&o.Spec)
	//lint:ignore SA1019 Clusters still have it.
	case *corev1.Endpoints:
		for i := range o.Subsets {
			for j := range o.Subsets[i].Ports {
				fill(&o.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
			}
		}
	case *discoveryv1.EndpointSlice:
		for i := range o.Ports {
			point(&o.Ports[i].Name, "")
			point(&o.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	case *schedulingv1.PriorityClass:
		point(&o.PreemptionPolicy, corev1.PreemptLowerPriority)
	case *storagev1.StorageClass:
		point(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		point(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *rbacv1.RoleBinding:
		defaultBinding(&o.RoleRef, o.Subjects)
	case *rbacv1.ClusterRoleBinding:
		defaultBinding(&o.RoleRef, o.Subjects)
	}
}

// point sets a field that is nil.
func point[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// fill sets a field that is empty.
func fill[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

func defaultDeployment(spec *appsv1.DeploymentSpec) {
	point(&spec.Replicas, 1)
	point(&spec.RevisionHistoryLimit, 10)
	point(&spec.ProgressDeadlineSeconds, 600)
	fill(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		point(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		point(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		point(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	}
	defaultPod(&spec.Template.Spec)
}

func defaultStatefulSet(spec *appsv1.StatefulSetSpec) {
	point(&spec.Replicas, 1)
	point(&spec.RevisionHistoryLimit, 10)
	fill(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	fill(&spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		point(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		point(&spec.UpdateStrategy.RollingUpdate.Partition, 0)
		point(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	retain := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	point(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, retain)
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, retain)
	defaultPod(&spec.Template.Spec)
}

func defaultDaemonSet(o *appsv1.DaemonSet, found *Object) {
	spec := &o.Spec
	point(&spec.RevisionHistoryLimit, 10)
	fill(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		point(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		point(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		point(&spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	defaultPod(&spec.Template.Spec)
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[appsv1.DeprecatedTemplateGeneration] = "1"
	if found != nil {
		o.Annotations[appsv1.DeprecatedTemplateGeneration] = templateGeneration(found, &spec.Template)
	}
}

// templateGeneration counts the changes of the template of a DaemonSet.
func templateGeneration(found *Object, template *corev1.PodTemplateSpec) string {
	before := &corev1.PodTemplateSpec{}
	content, _ := value(found, "spec", "template").(map[string]any)
	generation, _ := strconv.Atoi(found.GetAnnotations()[appsv1.DeprecatedTemplateGeneration])
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, before) == nil && !equality.Semantic.DeepEqual(before, template) {
		generation++
	}
	return strconv.Itoa(generation)
}

func defaultJob(spec *batchv1.JobSpec) {
	if spec.Completions == nil && spec.Parallelism == nil {
		point(&spec.Completions, 1)
	}
	point(&spec.Parallelism, 1)
	point(&spec.BackoffLimit, 6)
	point(&spec.Suspend, false)
	point(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	point(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	point(&spec.ManualSelector, false)
	defaultPod(&spec.Template.Spec)
}

func defaultPod(spec *corev1.PodSpec) {
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	point(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	point(&spec.SecurityContext, corev1.PodSecurityContext{})
	if spec.ServiceAccountName != "" {
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i])
		}
	}
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
}

func defaultContainer(c *corev1.Container) {
	_, tag, hasTag := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
	if !hasTag && !strings.Contains(c.Image, "@") || tag == "latest" {
		fill(&c.ImagePullPolicy, corev1.PullAlways)
	}
	fill(&c.ImagePullPolicy, corev1.PullIfNotPresent)
	fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			fill(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			defaultProbe(probe)
		}
	}
}

// defaultRequests makes a Pod request what it is limited to.
func defaultRequests(resources *corev1.ResourceRequirements) {
	if resources.Requests == nil && len(resources.Limits) > 0 {
		resources.Requests = corev1.ResourceList{}
	}
	for name, limit := range resources.Limits {
		if _, ok := resources.Requests[name]; !ok {
			resources.Requests[name] = limit.DeepCopy()
		}
	}
}

func defaultProbe(probe *corev1.Probe) {
	fill(&probe.TimeoutSeconds, 1)
	fill(&probe.PeriodSeconds, 10)
	fill(&probe.SuccessThreshold, 1)
	fill(&probe.FailureThreshold, 3)
	if probe.HTTPGet != nil {
		fill(&probe.HTTPGet.Path, "/")
		fill(&probe.HTTPGet.Scheme, corev1.URISchemeHTTP)
	}
	if probe.GRPC != nil {
		point(&probe.GRPC.Service, "")
	}
}

func defaultVolume(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		point(&v.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case v.Secret != nil:
		point(&v.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case v.Projected != nil:
		point(&v.Projected.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		point(&v.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	case v.HostPath != nil:
		point(&v.HostPath.Type, corev1.HostPathUnset)
	case v.VolumeSource == corev1.VolumeSource{}:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
}

func defaultService(spec *corev1.ServiceSpec) {
	fill(&spec.Type, corev1.ServiceTypeClusterIP)
	fill(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	for i := range spec.Ports {
		fill(&spec.Ports[i].Protocol, corev1.ProtocolTCP)
		fill(&spec.Ports[i].TargetPort, intstr.FromInt32(spec.Ports[i].Port))
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		point(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer {
		fill(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		point(&spec.AllocateLoadBalancerNodePorts, true)
	}
}

// defaultSecret moves what is written as text to the data.
func defaultSecret(o *corev1.Secret) {
	fill(&o.Type, corev1.SecretTypeOpaque)
	if o.Data == nil && len(o.StringData) > 0 {
		o.Data = map[string][]byte{}
	}
	for key, v := range o.StringData {
		o.Data[key] = []byte(v)
	}
	o.StringData = nil
}

func defaultAutoscaler(spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	point(&spec.MinReplicas, 1)
	if len(spec.Metrics) > 0 {
		return
	}
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))}
	cpu := &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: target}
	spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: cpu}}
}

func defaultNetworkPolicy(spec *networkingv1.NetworkPolicySpec) {
	if len(spec.PolicyTypes) > 0 {
		return
	}
	spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(spec.Egress) > 0 {
		spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

func defaultBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fill(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind != rbacv1.ServiceAccountKind {
			fill(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}
