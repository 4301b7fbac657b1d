// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a Foo. Both follow the convention of kstatus: Ready is always there once the Foo has been looked
// at, Stalled is there, and True, only while no progress can be expected without someone's help.
const (
	// ConditionReady is True when every wanted replica of the newest spec is available.
	ConditionReady = "Ready"
	// ConditionStalled is True while something stands in the way that waiting alone will not mend.
	ConditionStalled = "Stalled"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=foos,singular=foo,scope=Namespaced,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`,description="The Deployment that this Foo owns."
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="How many replicas are wanted; empty when the Foo leaves the count alone."
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`,description="How many replicas are available."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all wanted replicas are available."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why the Foo is ready or not, in one word."
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Why the Foo is ready or not, in a sentence."
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, experimental-only"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",message="metadata.name must be no longer than 63 characters, because it becomes the value of the label \"controller\" on the Deployment and its Pods"

// Foo asks for one nginx Deployment: it names it, says how many replicas it wants, and reports how it is doing.
type Foo struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata"`

	// spec is what you want: the Deployment's name and its number of replicas.
	// +required
	Spec FooSpec `json:"spec"`
	// status is what the controller last saw of the Deployment. It is written by the controller alone.
	// +optional
	Status FooStatus `json:"status"`
}

// FooSpec is what the user of a Foo wants.
type FooSpec struct {
	// deploymentName is the name of the Deployment that this Foo creates and owns, in the Foo's namespace. It must be a
	// lowercase DNS-1123 subdomain. If you change it, a Deployment of the new name is created, and the old one is deleted
	// as soon as the new one is available.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	DeploymentName string `json:"deploymentName"`
	// replicas is how many Pods the Deployment should run, from 1 to 10. If it is absent, this Foo leaves the count
	// alone: the Deployment starts with the API server's default of 1, and anyone may scale it afterwards.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is what the controller last saw of a Foo's Deployment.
type FooStatus struct {
	// availableReplicas is how many of the Deployment's Pods are available: ready for as long as the Deployment demands.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// replicas is how many Pods the Deployment has at present. The scale subresource reads it.
	// +optional
	Replicas int32 `json:"replicas"`
	// selector is the Deployment's label selector in the form of a string, such as "app=nginx,controller=example-foo".
	// The scale subresource reads it, and with it a HorizontalPodAutoscaler.
	// +optional
	Selector string `json:"selector,omitempty"`
	// observedGeneration is the metadata.generation of the Foo that this status speaks of. While it is smaller than
	// metadata.generation, the controller has not yet looked at the newest spec.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions tell how the Foo is doing. "Ready" is True when all wanted replicas are available; "Stalled" is there,
	// and True, only while something stands in the way that waiting alone will not mend.
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
