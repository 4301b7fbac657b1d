// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types of a Foo, by the convention of kstatus: Stalled is set only while it is True.
const (
	// ConditionReady is True if all desired replicas of the latest generation are available.
	ConditionReady = "Ready"
	// ConditionStalled is True if the controller cannot make progress until a user acts.
	ConditionStalled = "Stalled"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=foos,singular=foo,scope=Namespaced,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`,description="Name of the Deployment of this Foo."
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Desired number of replicas. Empty if the Foo does not manage it."
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="Number of available replicas."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all desired replicas are available."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the Ready condition."
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Message of the Ready condition."
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, experimental-only"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="metadata.name must be no longer than 63 characters, because it becomes the value of the label \"controller\" on the Deployment and its Pods"

// Foo describes one nginx Deployment. The controller creates the Deployment, keeps it in the desired state,
// and reports its rollout.
type Foo struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata"`

	// spec is the desired state: the name of the Deployment and its number of replicas.
	// +required
	Spec FooSpec `json:"spec"`
	// status is the most recently observed state of the Deployment. Only the controller writes it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status FooStatus `json:"status"`
}

// FooSpec is the desired state of a Foo's Deployment.
type FooSpec struct {
	// deploymentName is the name of the Deployment that the controller creates for this Foo, in the Foo's
	// namespace. It must be a DNS-1123 subdomain. If it is changed, a Deployment of the new name is created, and
	// the superseded one is deleted once the new one is available.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	DeploymentName string `json:"deploymentName"`
	// replicas is the desired number of Pods, from 1 to 10. If it is not set, this Foo does not manage the
	// number of replicas: the Deployment is created with 1 or, if the name was changed, as many as the superseded
	// one has, and anyone may scale the Deployment. A HorizontalPodAutoscaler that targets the Foo needs replicas
	// to be set once, such as by "kubectl scale".
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is the most recently observed state of a Foo's Deployment.
type FooStatus struct {
	// availableReplicas is the number of the Deployment's Pods that have been ready for at least its
	// minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// replicas is the number of Pods that the Deployment has. The scale subresource reads it.
	// +optional
	Replicas int32 `json:"replicas"`
	// selector is the label selector of the Deployment's Pods as a string, such as
	// "app=nginx,controller=example-foo". The scale subresource reads it.
	// +optional
	Selector string `json:"selector,omitempty"`
	// observedGeneration is the metadata.generation that this status is about. If it is less than
	// metadata.generation, the controller has not reconciled the latest generation yet. It is -1 until the
	// controller has reconciled the first one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are the latest observations of the Foo's state. "Ready" is True if all desired replicas are
	// available. "Stalled" is set, and True, only while the controller cannot make progress until a user acts:
	// its reason and message say why.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// FooList is a list of Foos.
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata"`

	// items are the Foos.
	Items []Foo `json:"items"`
}
